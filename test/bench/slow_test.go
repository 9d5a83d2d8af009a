package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// slowScenarios are those of KEP-6268, kubernetes pkg/storage/cacher BenchmarkSlowWatcherTax, with 100 watchers in each.
var slowScenarios = []slowScenario{
	{name: "alone", rate: 100},
	{name: "stalled-once", rate: 100, slow: 1, stalled: true},
	{name: "stalled-reconnecting", rate: 100, slow: 1, stalled: true, reconnects: true},
	{name: "alone-1000", rate: 1000},
	{name: "stalled-reconnecting-1000", rate: 1000, slow: 1, stalled: true, reconnects: true},
	{name: "slow-1-1000", rate: 1000, slow: 1},
	{name: "slow-10-1000", rate: 1000, slow: 10},
	{name: "slow-50-1000", rate: 1000, slow: 50},
}

type slowScenario struct {
	name string
	rate int // events a second
	// slow is how many watchers are slow: they read an event each slowRead, or nothing if they are stalled.
	slow                int
	stalled, reconnects bool
}

const (
	slowTime      = 10 * time.Second
	slowWatchers  = 100
	slowRead      = 10 * time.Millisecond
	slowReconnect = 500 * time.Millisecond
	// slowWitnesses of the other watchers measure the delay. All read as fast as they can.
	slowWitnesses = 10
)

// BenchmarkSlowWatchers measures what slow watchers cost themselves and the others. A watch that ends is opened again, after the last
// event if the protocol can. The metrics are sums of one run of ten seconds.
func BenchmarkSlowWatchers(b *testing.B) {
	for _, s := range slowScenarios {
		for _, peer := range slowPeers {
			b.Run(s.name+"/peer="+peer.name, func(b *testing.B) {
				for b.Loop() {
					r := runSlow(b, peer.start(b), s)
					b.ReportMetric(float64(r.delay(0.5).Microseconds())/1e3, "p50-ms")
					b.ReportMetric(float64(r.delay(0.99).Microseconds())/1e3, "p99-ms")
					b.ReportMetric(float64(r.ended), "ended")
					b.ReportMetric(float64(r.othersEnded.Load()), "others-ended")
					b.ReportMetric(float64(r.lists.Load()), "lists")
					b.ReportMetric(r.seconds, "seconds")
				}
				b.ReportMetric(0, "ns/op") // it is the time of a scenario
			})
		}
	}
}

// TestSlowWatchers checks that each peer delivers, and that a stalled watcher ends only where it is ended.
func TestSlowWatchers(t *testing.T) {
	for _, peer := range slowPeers {
		t.Run(peer.name, func(t *testing.T) {
			p := peer.start(t)
			r := &slowRun{slowPeer: p, slowScenario: slowScenario{slow: 1, stalled: true}}
			r.begin(t, 3)
			defer r.end()
			for i := range 20 * paced {
				p.change(i, time.Now())
				pause(t, time.Millisecond)
			}
			testutil.Until(t, "the witnesses have the last event", func() bool { return r.read.Load() >= int64(2*20*paced) })
			if ends := peer.name == "kubelet" || peer.name == "apiserver-cache"; ends != (p.ended() > 0) {
				t.Errorf("%d watches were ended", p.ended())
			}
		})
	}
}

// slowPeer is a server of watches.
type slowPeer struct {
	// change makes the i-th event, whose pod says when.
	change func(i int, now time.Time)
	// watch opens a watch that continues after the position, or begins with all pods if there is none.
	watch func(ctx context.Context, position string) (slowWatch, error)
	// ended returns how many watches the server has ended because they were slow.
	ended func() int64
}

// slowWatch is a watch. at and position are of the last event that next has read, and cost decoding.
type slowWatch interface {
	// next returns whether the event is a change after the first pods.
	next() (changed bool, err error)
	at() (time.Time, error)
	position() string
	close()
}

// errExpired means that the server no longer has the events after the position.
var errExpired = errors.New("expired")

// stampAnnotation says when a pod was changed, in ns.
const stampAnnotation = "bench/changed"

func parseStamp(annotations map[string]string) (time.Time, error) {
	ns, err := strconv.ParseInt(annotations[stampAnnotation], 10, 64)
	return time.Unix(0, ns), err
}

// slowRun is a run of a scenario.
type slowRun struct {
	*slowPeer
	slowScenario
	watchers sync.WaitGroup
	stop     context.CancelFunc
	failed   atomic.Value
	// othersEnded counts the watches of those that are not slow, and lists the watches that began with all pods because they could not
	// continue. read counts the changes that the witnesses have read.
	othersEnded, lists, read atomic.Int64
	ended                    int64
	seconds                  float64

	mu     sync.Mutex // guards delays
	delays []time.Duration
}

func runSlow(b *testing.B, p *slowPeer, s slowScenario) *slowRun {
	b.Helper()
	r := &slowRun{slowPeer: p, slowScenario: s}
	r.begin(b, slowWatchers)
	before, begin := p.ended(), time.Now()
	for i := range s.rate * int(slowTime.Seconds()) {
		// An absolute schedule: a late event does not delay the next ones.
		pause(b, max(0, time.Until(begin.Add(time.Duration(i)*time.Second/time.Duration(s.rate)))))
		p.change(i, time.Now())
	}
	r.seconds = time.Since(begin).Seconds()
	pause(b, time.Second) // for the last events
	r.ended = p.ended() - before
	r.end()
	if err := r.failed.Load(); err != nil {
		b.Fatal(err)
	}
	return r
}

// begin starts the watchers, and makes changes until all but the slow ones have read one.
func (r *slowRun) begin(tb testing.TB, watchers int) {
	tb.Helper()
	var ctx context.Context
	ctx, r.stop = context.WithCancel(tb.Context())
	var synced sync.WaitGroup
	all := make(chan struct{})
	for i := range watchers {
		slow, witness := i < r.slow, i >= r.slow && i < r.slow+slowWitnesses
		done := func() {}
		if !slow {
			synced.Add(1)
			done = sync.OnceFunc(synced.Done)
		}
		r.watchers.Go(func() {
			if err := r.follow(ctx, slow, witness, done); err != nil && ctx.Err() == nil {
				r.failed.Store(err)
			}
			done()
		})
	}
	go func() { synced.Wait(); close(all) }()
	for waiting := true; waiting; {
		r.change(0, time.Now())
		select {
		case <-all:
			waiting = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	pause(tb, 200*time.Millisecond) // for the last of these changes
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delays = nil
	r.read.Store(0)
	r.lists.Store(0)
	r.othersEnded.Store(0)
}

func (r *slowRun) end() {
	r.stop()
	r.watchers.Wait()
}

// follow watches, and watches again when the watch ends.
func (r *slowRun) follow(ctx context.Context, slow, witness bool, synced func()) error {
	position := ""
	for first := true; ctx.Err() == nil; first = false {
		if !first && position == "" {
			r.lists.Add(1)
		}
		w, err := r.watch(ctx, position)
		switch {
		case err == nil:
			err = r.readAll(ctx, w, slow, witness, synced)
			if position = w.position(); errors.Is(err, errExpired) {
				position = ""
			}
			w.close()
		case errors.Is(err, errExpired):
			position = ""
		default:
			return fmt.Errorf("watching: %w", err)
		}
		if !slow && ctx.Err() == nil {
			r.othersEnded.Add(1)
		}
	}
	return nil
}

// readAll reads a watch until it ends.
func (r *slowRun) readAll(ctx context.Context, w slowWatch, slow, witness bool, synced func()) error {
	if slow && r.stalled {
		var again <-chan time.Time
		if r.reconnects {
			again = time.After(slowReconnect)
		}
		if _, err := w.next(); err != nil { // the watch is open
			return err
		}
		select {
		case <-ctx.Done():
		case <-again:
		}
		return nil
	}
	for {
		changed, err := w.next()
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		synced()
		switch {
		case slow:
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(slowRead):
			}
		case witness:
			at, err := w.at()
			if err != nil {
				return fmt.Errorf("decoding an event: %w", err)
			}
			r.read.Add(1)
			r.mu.Lock()
			r.delays = append(r.delays, time.Since(at))
			r.mu.Unlock()
		}
	}
}

// delay returns a percentile of the delays of the witnesses.
func (r *slowRun) delay(part float64) time.Duration {
	if len(r.delays) == 0 {
		return 0
	}
	slices.Sort(r.delays)
	return r.delays[int(part*float64(len(r.delays)-1))]
}
