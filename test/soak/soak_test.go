package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/test/soak/history"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	seed     = flag.Uint64("seed", 0, "what the changes and cuts follow from; 0 for the time")
	steps    = flag.Int("steps", 150, "number of changes")
	kills    = flag.Int("kills", 3, "how often the daemon is killed in a run without a state directory")
	restarts = flag.Int("restarts", 34, "how often the daemon is killed in a run with a state directory")
	patience = flag.Duration("patience", testutil.Patience, "how long to wait for what must come")
)

// TestHistories has sources change at random, and judges what each subscriber received.
func TestHistories(t *testing.T) {
	random := seeded(t)
	// In the small journal, subscribers that pause fall behind. In the large one, only a new
	// instance may cause a reset.
	t.Run("small journal", func(t *testing.T) { soak(t, random, history.Options{MaxUpdates: 40, Clashes: true}, false) })
	t.Run("large journal", func(t *testing.T) { soak(t, random, history.Options{MaxUpdates: 1 << 20}, false) })
	t.Run("with an apiserver", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a cluster")
		}
		soak(t, random, history.Options{MaxUpdates: 1 << 20, Clashes: true, Node: true}, true)
	})
}

// TestDurableHistories is TestHistories with a state directory: subscribers resume after the
// daemon was killed, and get what changed in the meantime, and nothing else.
func TestDurableHistories(t *testing.T) {
	random := seeded(t)
	t.Run("small journal", func(t *testing.T) {
		soak(t, random, history.Options{MaxUpdates: 40, Clashes: true, Durable: true}, false)
	})
	t.Run("large journal", func(t *testing.T) {
		soak(t, random, history.Options{MaxUpdates: 1 << 20, Durable: true}, false)
	})
	t.Run("with an apiserver", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a cluster")
		}
		soak(t, random, history.Options{MaxUpdates: 1 << 20, Clashes: true, Durable: true, Node: true}, true)
	})
}

func seeded(t *testing.T) uint64 {
	t.Helper()
	random := *seed
	if random == 0 {
		random = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with: -args -seed %d -steps %d -kills %d -restarts %d", random, *steps, *kills, *restarts)
	return random
}

// world is one run.
type world struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	steps   *progress
	kills   int
	durable bool
	daemon  *daemon
	mutator *mutator
	// whole is never cut and never pauses.
	whole *subscriber
	all   []*subscriber
	wg    sync.WaitGroup
}

func soak(t *testing.T, seed uint64, opts history.Options, withAPI bool) {
	t.Helper()
	dir := testutil.ShortDir(t)
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, uint64(opts.MaxUpdates))), steps: newProgress()}
	w.mutator = newMutator(t, rand.New(rand.NewPCG(seed, 1)), dir, opts.Clashes)
	w.daemon = newDaemon(t, dir, "--journal-max-updates", strconv.Itoa(opts.MaxUpdates), "--journal-max-bytes", "1000000000", "--manifest-url", w.mutator.web.URL)
	if w.kills, w.durable = *kills, opts.Durable; opts.Durable {
		w.kills = *restarts
		w.daemon.args = append(w.daemon.args, "--state-dir", stateDir(t))
		size := "1000000000"       // the whole log
		if opts.MaxUpdates < 100 { // so that a start begins with a snapshot
			size = "2000000"
		}
		w.daemon.args = append(w.daemon.args, "--state-max-bytes", size)
	}
	if withAPI {
		w.mutator.api = newAPIServer(t, dir)
		w.daemon.args = append(w.daemon.args, "--kubeconfig", w.mutator.api.kubeconfig)
	}
	w.daemon.start(t)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer func() { cancel(); w.wg.Wait() }()
	w.subscribe(ctx)
	begin := time.Now()
	if err := w.play(); err != nil {
		t.Error(err)
	}
	w.rest()
	cancel()
	w.wg.Wait()

	histories := make([]*history.History, len(w.all))
	for i, s := range w.all {
		histories[i] = s.history
	}
	r := history.Check(histories, opts)
	for i, v := range r.Violations {
		if i == 20 {
			break
		}
		t.Error(v)
	}
	t.Logf("in %v: %v; changes: %v", time.Since(begin).Round(time.Millisecond), r, w.mutator.kinds)
	if r.Compared < r.Messages/10 || r.Resumes < len(w.all) {
		t.Error("too little was judged")
	}
}

// subscriber returns a new one. most is about how many bytes its longest connections read;
// 0 if it is never cut.
func (w *world) subscriber(name string, view history.View, s history.Selection, most int, ops ...string) *subscriber {
	random := func(n int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(100*n+len(w.all)))) }
	one := &subscriber{
		t: w.t, random: random(1), steps: w.steps, changed: make(chan struct{}), held: make(map[string]history.Pod),
		cutter:  &cutter{socket: w.daemon.socket, random: random(2), most: most, rest: w.steps.atRest},
		history: &history.History{Subscriber: name, View: view, Selection: s, Ops: ops},
	}
	one.pauses = strings.Contains(name, "slow")
	w.all = append(w.all, one)
	return one
}

// subscribe starts all subscribers.
func (w *world) subscribe(ctx context.Context) {
	const far = 1 << 20
	near := 1 << 15
	if w.durable { // the largest update must get through before it leaves the journal: there are no resets
		near = 1 << 18
	}
	everything := history.Selection{}
	w.whole = w.subscriber("ndjson", history.Stream, everything, 0)
	for _, s := range []*subscriber{
		w.whole,
		w.subscriber("ndjson, cut", history.Stream, everything, far),
		w.subscriber("ndjson, cut often", history.Stream, everything, near),
		w.subscriber("ndjson, slow", history.Stream, everything, 0),
		w.subscriber("ndjson, slow and cut", history.Stream, everything, far),
		w.subscriber("ndjson, no mirror pods", history.Stream, history.Selection{NoMirrors: true}, near),
		w.subscriber("ndjson, source", history.Stream, history.Selection{Source: httpSource}, near),
		w.subscriber("ndjson, namespace", history.Stream, history.Selection{Namespace: namespaces[2]}, near),
		w.subscriber("ndjson, labels", history.Stream, history.Selection{Tier: tiers[0]}, near),
		w.subscriber("ndjson, name", history.Stream, history.Selection{Name: "pod-7-" + nodeName}, far),
		w.subscriber("ndjson, snapshots", history.Snapshots, everything, near),
		w.subscriber("ndjson, snapshots, slow", history.Snapshots, everything, 0),
		w.subscriber("ndjson, snapshots, labels", history.Snapshots, history.Selection{Tier: tiers[1]}, far),
		w.subscriber("ndjson, operations", history.Stream, everything, near, history.Add, history.Remove),
	} {
		w.wg.Go(func() { s.follow(ctx, ndjson{s}.read) })
	}
	for _, s := range []*subscriber{
		w.subscriber("gRPC", history.Stream, everything, 0),
		w.subscriber("gRPC, cut", history.Stream, everything, near),
		w.subscriber("gRPC, slow and cut", history.Stream, everything, far),
		w.subscriber("gRPC, list", history.Stream, everything, near),
		w.subscriber("gRPC, list, name", history.Stream, history.Selection{Name: "pod-11-" + nodeName}, near),
		w.subscriber("gRPC, labels", history.Stream, history.Selection{Tier: tiers[1]}, near),
	} {
		w.wg.Go(func() { s.follow(ctx, grpcStream{s, strings.Contains(s.history.Subscriber, "list")}.read) })
	}
	w.subscribeKubernetes(ctx, far, near)
}

// subscribeKubernetes starts the subscribers of the Kubernetes API and of the Pods API.
func (w *world) subscribeKubernetes(ctx context.Context, far, near int) {
	everything := history.Selection{}
	for _, s := range []*subscriber{
		w.subscriber("Kubernetes", history.Names, everything, 0),
		w.subscriber("Kubernetes, cut", history.Names, everything, near),
		w.subscriber("Kubernetes, slow and cut", history.Names, everything, far),
		w.subscriber("Kubernetes, watch list", history.Names, everything, near),
		w.subscriber("Kubernetes, namespace", history.Names, history.Selection{Namespace: namespaces[0]}, far),
		w.subscriber("Kubernetes, labels", history.Names, history.Selection{Tier: tiers[2]}, near),
		w.subscriber("Kubernetes, name, watch list", history.Names, history.Selection{Name: "pod-7-" + nodeName}, far),
	} {
		w.wg.Go(func() { s.follow(ctx, kubernetes{s, strings.Contains(s.history.Subscriber, "watch list")}.read) })
	}
	for _, s := range []*subscriber{
		w.subscriber("Pods API", history.UIDs, history.Selection{NoMirrors: true}, 0),
		w.subscriber("Pods API, cut", history.UIDs, history.Selection{NoMirrors: true}, far),
		w.subscriber("Pods API, slow and cut", history.UIDs, history.Selection{NoMirrors: true}, far),
	} {
		w.wg.Go(func() { s.follow(ctx, podsAPI{s}.read) })
	}
	for _, s := range []*subscriber{
		w.subscriber("Go client, cut", history.Stream, everything, near),
		w.subscriber("Go client, slow and cut", history.Stream, everything, far),
	} {
		socket := s.cutter.serve(ctx, w.t, &w.wg)
		w.wg.Go(func() { goClient{s}.run(ctx, socket) })
	}
	for contentType, s := range map[string]*subscriber{
		runtime.ContentTypeJSON:     w.subscriber("Reflector, JSON", history.Names, everything, far),
		runtime.ContentTypeProtobuf: w.subscriber("Reflector, protobuf", history.Names, everything, far),
	} {
		w.wg.Go(func() { reflector{s, contentType}.run(ctx) })
	}
}

// play makes the changes. It stops when the stream does.
func (w *world) play() error {
	kill := make(map[int]bool)
	for _, step := range w.random.Perm(*steps)[:min(w.kills, *steps)] {
		kill[step] = true
	}
	for step := range *steps {
		w.steps.advance(false)
		w.mutator.change()
		if kill[step] {
			w.crash()
		} else if w.random.IntN(10) < 7 {
			if err := w.barrier(); err != nil {
				return err
			}
		}
	}
	return nil
}

// crash kills the daemon, makes changes that it does not see, and starts it. Now and then, it
// is killed again during the start.
func (w *world) crash() {
	w.daemon.kill()
	for range w.random.IntN(3) {
		w.mutator.change()
	}
	w.daemon.start(w.t)
	if w.random.IntN(4) == 0 {
		<-time.After(time.Duration(w.random.IntN(150)) * time.Millisecond)
		w.daemon.kill()
		w.daemon.start(w.t)
	}
}

// barrier waits until the daemon has read the directory.
func (w *world) barrier() error {
	want := w.mutator.barrier().pod(fileSource)
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	return w.whole.await(ctx, func(held map[string]history.Pod) error {
		if got := held[w.whole.key(want)]; got != want {
			return fmt.Errorf("the barrier: it holds %v, want %v", got, want)
		}
		return nil
	})
}

// rest ends the changes, and waits until every subscriber holds the truth.
func (w *world) rest() {
	w.mutator.heal()
	w.steps.advance(true)
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	for _, s := range w.all {
		if s.history.Ops != nil || s.history.View == history.Snapshots && w.mutator.api != nil {
			continue // it does not know all versions, or not all statuses
		}
		want := w.mutator.truth.of(s)
		if err := s.await(ctx, func(held map[string]history.Pod) error { return same(held, want) }); err != nil {
			w.t.Errorf("at rest: %v", err)
		}
	}
}
