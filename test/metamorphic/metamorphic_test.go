package metamorphic

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

var (
	seed  = flag.Uint64("seed", 1, "the seed of the first run; 0 for a random one")
	runs  = flag.Int("runs", 30, "the number of runs")
	steps = flag.Int("steps", 120, "the number of steps of a run")
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // what is logged of faults
	os.Exit(m.Run())
}

// All subscribers that have read everything hold what the model says, after any sequence of steps.
func TestMetamorphic(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for i := range *runs {
		seed := *seed + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			r := &run{random: rand.New(rand.NewPCG(seed, 30))}
			if err := r.play(t); err != nil {
				t.Errorf("-seed %d, step %d: %v\nafter %s", seed, len(r.done), err, strings.Join(r.done, ", "))
			}
		})
		if t.Failed() {
			return
		}
	}
}

// run is one sequence of steps.
type run struct {
	random      *rand.Rand
	world       *world
	subscribers []*subscriber
	done        []string
}

func subscribers() []*subscriber {
	appA := view.Selector{Labels: labels.SelectorFromSet(labels.Set{"app": "a"})}
	return []*subscriber{
		{name: "incremental", uid: 1000, open: stream(view.IncrementalMode), resumes: true},
		{name: "incremental, app a", uid: 1001, selector: appA, open: stream(view.IncrementalMode), resumes: true},
		{name: "incremental, labels only", uid: 1000, labelsOnly: true, open: stream(view.IncrementalMode), resumes: true},
		{name: "snapshots", uid: 1001, open: stream(view.SnapshotMode), resumes: true},
		{name: "snapshots and updates", uid: 1000, selector: view.Selector{Source: "file"}, open: stream(view.SnapshotAndUpdatesMode), resumes: true},
		{name: "names", uid: 1001, open: names, resumes: true},
		{name: "UIDs", uid: 1000, selector: view.Selector{NoMirrorPods: true}, open: uids},
	}
}

func (r *run) play(t *testing.T) error {
	top := t.TempDir()
	w := &world{top: top, dir: filepath.Join(top, "0"), updates: 1 + r.random.IntN(60), model: newModel()}
	r.world, r.subscribers = w, subscribers()
	if err := w.start(); err != nil {
		return err
	}
	defer func() {
		for _, s := range r.subscribers {
			s.cut()
		}
		w.stop()
	}()
	w.settle()
	for range *steps {
		if err := r.step(); err != nil {
			return err
		}
	}
	return r.compare()
}

// step makes a random step.
func (r *run) step() error {
	did := func(format string, args ...any) { r.done = append(r.done, fmt.Sprintf(format, args...)) }
	w := r.world
	switch n := r.random.IntN(100); {
	case n < 45:
		source := sourceNames[r.random.IntN(3)]
		set := w.model.change(r.random, source)
		did("%s delivers %d", source, len(set))
		w.model.take(source, set)
		w.deliver(source, set)
	case n < 75:
		s := r.subscribers[r.random.IntN(len(r.subscribers))]
		did("%s reads", s.name)
		return s.read(w, 1+r.random.IntN(4))
	case n < 80:
		s := r.subscribers[r.random.IntN(len(r.subscribers))]
		did("%s is cut", s.name)
		s.cut()
	case n < 84:
		failing := !w.disk.failing.Load()
		did("the disk fails: %t", failing)
		w.disk.failing.Store(failing)
		w.settle()
	case n < 88:
		rules := randomRules(r.random)
		did("%d rules", len(rules))
		w.setRules(rules)
	case n < 92:
		kill := r.random.IntN(2) == 0
		did("restart, killed: %t", kill)
		for _, s := range r.subscribers {
			s.cut()
		}
		return w.restart(kill)
	default:
		did("compare")
		return r.compare()
	}
	return nil
}

// compare lets each subscriber read everything, and compares it with the model.
func (r *run) compare() error {
	if got, want := show(r.world.current()), show(r.world.model.view(nil, view.Selector{}, false)); got != want {
		return fmt.Errorf("the journal has\n%s\nwant\n%s", got, want)
	}
	for _, s := range r.subscribers {
		if err := s.read(r.world, 1000); err != nil {
			return err
		}
		want := r.world.model.view(&s.uid, s.selector, s.labelsOnly)
		if got := show(s.held); got != show(want) {
			return fmt.Errorf("%s holds\n%s\nwant\n%s", s.name, got, show(want))
		}
	}
	return nil
}
