package merge

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// sequences is the number of random sequences of TestMergeIsTheKubelets.
var sequences = flag.Int("sequences", 20000, "how many random sequences to compare")

// update is an update of either side, for the comparison.
type update struct {
	Op, Source string
	Pods       []*v1.Pod
}

func (u update) String() string {
	names := make([]string, len(u.Pods))
	for i, p := range u.Pods {
		names[i] = p.Namespace + "/" + p.Name + "/" + string(p.UID)
	}
	return fmt.Sprintf("%s %s [%s]", u.Op, u.Source, strings.Join(names, " "))
}

// normalize orders the pods, and removes the time at which they were first seen.
func normalize(op, source string, pods []*v1.Pod) (update, error) {
	u := update{Op: op, Source: source, Pods: make([]*v1.Pod, len(pods))}
	for i, p := range pods {
		p = p.DeepCopy()
		if _, err := time.Parse(time.RFC3339Nano, p.Annotations[config.ConfigFirstSeenAnnotationKey]); err != nil {
			return u, fmt.Errorf("%s of %s: the first-seen annotation: %w", op, p.Name, err)
		}
		delete(p.Annotations, config.ConfigFirstSeenAnnotationKey)
		u.Pods[i] = p
	}
	slices.SortStableFunc(u.Pods, func(a, b *v1.Pod) int {
		return cmp.Or(config.ComparePods(a, b), cmp.Compare(content(a), content(b)))
	})
	return u, nil
}

func content(p *v1.Pod) string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(data)
}

var modes = []struct {
	ours    view.Mode
	kubelet kubeletconfig.PodConfigNotificationMode
}{
	{view.IncrementalMode, kubeletconfig.PodConfigNotificationIncremental},
	{view.SnapshotAndUpdatesMode, kubeletconfig.PodConfigNotificationSnapshotAndUpdates},
	{view.SnapshotMode, kubeletconfig.PodConfigNotificationSnapshot},
}

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(*v1.Pod, time.Time) {}

// kubelet is the kubelet's merger in one mode.
type kubelet struct {
	config   *kubeletconfig.PodConfig
	channels map[string]chan<- any
}

var kubeletOps = map[kubelettypes.PodOperation]string{
	kubelettypes.SET: "SET", kubelettypes.ADD: "ADD", kubelettypes.DELETE: "DELETE", kubelettypes.REMOVE: "REMOVE",
	kubelettypes.UPDATE: "UPDATE", kubelettypes.RECONCILE: "RECONCILE",
}

func newKubelet(ctx context.Context, mode kubeletconfig.PodConfigNotificationMode, sources []string) *kubelet {
	k := &kubelet{
		config:   kubeletconfig.NewPodConfig(mode, &record.FakeRecorder{}, noSLI{}),
		channels: make(map[string]chan<- any),
	}
	for _, source := range sources {
		k.channels[source] = k.config.Channel(ctx, source)
	}
	return k
}

// merge returns the kubelet's updates for the set. Pods are copies, because the kubelet
// writes to them.
func (k *kubelet) merge(s step) (updates []update, err error) {
	pods := make([]*v1.Pod, len(s.Pods))
	for i, p := range s.Pods {
		pods[i] = p.object()
	}
	k.channels[s.Source] <- kubelettypes.PodUpdate{Op: kubelettypes.SET, Pods: pods, Source: s.Source}
	synctest.Wait()
	for {
		select {
		case u := <-k.config.Updates():
			one, err := normalize(kubeletOps[u.Op], u.Source, u.Pods)
			if err != nil {
				return nil, fmt.Errorf("the kubelet: %w", err)
			}
			updates = append(updates, one)
		default:
			return updates, nil
		}
	}
}

// ours is podconfigd's merger and journal, with a subscriber in each mode.
type ours struct {
	channels map[string]chan<- config.SourceSet
	frames   []chan *view.Frame
	running  sync.WaitGroup
	sent     map[string]map[pod]*v1.Pod
	copies   map[*v1.Pod]*v1.Pod
}

func newOurs(ctx context.Context, sources []string) *ours {
	podConfig := config.NewPodConfig()
	o := &ours{
		channels: make(map[string]chan<- config.SourceSet), sent: make(map[string]map[pod]*v1.Pod),
		copies: make(map[*v1.Pod]*v1.Pod),
	}
	for _, source := range sources {
		o.channels[source] = podConfig.Channel(source)
		o.sent[source] = make(map[pod]*v1.Pod)
	}
	j := journal.New(journal.Options{Sources: sources})
	o.running.Go(func() { _ = podConfig.Run(ctx) })
	o.running.Go(func() {
		for u := range podConfig.Updates() {
			j.Append(u)
		}
	})
	for _, mode := range modes {
		frames := make(chan *view.Frame, 1000)
		o.frames = append(o.frames, frames)
		cursor := view.Stream(j, view.StreamOptions{Mode: mode.ours})
		o.running.Go(func() {
			defer cursor.Close()
			for {
				next, err := cursor.Next(ctx)
				if err != nil {
					return
				}
				for _, f := range next {
					frames <- f
				}
			}
		})
	}
	return o
}

// pods returns the pods of the set: with the same pointers as before, or with new ones.
func (o *ours) pods(s step) []*v1.Pod {
	pods := make([]*v1.Pod, len(s.Pods))
	for i, p := range s.Pods {
		pods[i] = o.sent[s.Source][p]
		if pods[i] == nil || !s.Same {
			pods[i] = p.object()
			o.copies[pods[i]] = pods[i].DeepCopy()
			o.sent[s.Source][p] = pods[i]
		}
	}
	return pods
}

// merge returns the updates for the set in each mode.
func (o *ours) merge(s step) (updates [][]update, err error) {
	o.channels[s.Source] <- config.SourceSet{Pods: o.pods(s)}
	synctest.Wait()
	for i, frames := range o.frames {
		updates = append(updates, nil)
		for len(frames) > 0 {
			f := <-frames
			switch {
			case f.Op == config.BOOKMARK && f.Reset:
				return nil, fmt.Errorf("%s: a reset: %s", modes[i].ours, f.Message)
			case f.Op == config.BOOKMARK:
				continue
			}
			objects := make([]*v1.Pod, len(f.Pods))
			for j, p := range f.Pods {
				objects[j] = p.Object
			}
			one, err := normalize(f.Op.String(), f.Source, objects)
			if err != nil {
				return nil, fmt.Errorf("podconfigd: %w", err)
			}
			updates[i] = append(updates[i], one)
		}
	}
	return updates, nil
}

// unwritten returns an error if a pod was written to after it was sent.
func (o *ours) unwritten() error {
	for p, was := range o.copies {
		if !reflect.DeepEqual(p, was) {
			return fmt.Errorf("a pod of a source was written to:\n%s", gocmp.Diff(was, p))
		}
	}
	return nil
}

var allSources = []string{"api", "file", "http"}

// compare runs the steps on both sides, and returns the differences.
func compare(t *testing.T, steps []step) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
		us := newOurs(ctx, allSources)
		var them []*kubelet
		for _, mode := range modes {
			them = append(them, newKubelet(ctx, mode.kubelet, allSources))
		}
		defer func() {
			cancel()
			us.running.Wait()
			for _, k := range them {
				for _, channel := range k.channels {
					close(channel) // the kubelet's Mux listens until then
				}
			}
		}()
		synctest.Wait()
		for i, s := range steps {
			if err = compareStep(us, them, s); err != nil {
				err = fmt.Errorf("set %d: %w", i, err)
				return
			}
		}
		err = us.unwritten()
	})
	return err
}

func compareStep(us *ours, them []*kubelet, s step) error {
	updates, err := us.merge(s)
	if err != nil {
		return err
	}
	for i, k := range them {
		want, err := k.merge(s)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(want, updates[i]) {
			return fmt.Errorf("%s: the kubelet says %v, podconfigd %v\n(-kubelet +podconfigd):\n%s",
				modes[i].ours, want, updates[i], gocmp.Diff(want, updates[i]))
		}
	}
	return nil
}

func TestMergeIsTheKubelets(t *testing.T) {
	shards := runtime.GOMAXPROCS(0)
	each := *sequences/shards + 1
	if testing.Short() {
		each *= 5 // rapid divides by this, and 20,000 take seconds
	}
	var compared atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d sequences", compared.Load())
		if !t.Failed() && compared.Load() < int64(*sequences) {
			t.Errorf("only %d sequences were compared, want %d", compared.Load(), *sequences)
		}
	})
	if err := flag.Set("rapid.checks", fmt.Sprint(each)); err != nil {
		t.Fatal(err)
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				steps := drawSteps(rt)
				compared.Add(1)
				if err := compare(t, steps); err != nil {
					rt.Fatalf("%v\nsteps: %v", err, steps)
				}
			})
		})
	}
}
