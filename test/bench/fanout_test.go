package bench

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// changers is the number of manifests that change in turn. window is the maximum
	// number of changes in flight. It is much smaller, so that no version is replaced
	// before the daemon has read it.
	changers = 110
	window   = 32
)

// BenchmarkFanOut measures the cost of many subscribers. Each op is one change of a
// manifest. Its pod keeps its UID, so it is one UPDATE of one pod. It is delivered when a
// subscriber has read it. Up to 32 changes are in flight, which keeps the daemon busy.
func BenchmarkFanOut(b *testing.B) {
	for _, subscribers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			f := newFanOut(b, subscribers)
			for range changers { // warm-up
				f.change(b)
			}
			f.settle(b, 0)
			before, encodes, cpu := f.changes, f.encodes(b), f.daemon.cpu(b)
			begin := time.Now()
			for b.Loop() {
				f.change(b)
			}
			f.settle(b, 0)
			took := time.Since(begin)
			changes := float64(f.changes - before)
			deliveries := changes * float64(subscribers)
			b.ReportMetric(float64(took.Nanoseconds())/changes, "ns/op")
			b.ReportMetric(deliveries/took.Seconds(), "deliveries/s")
			b.ReportMetric((f.daemon.cpu(b)-cpu).Seconds()*1e6/deliveries, "cpu-µs/delivery")
			b.ReportMetric((f.encodes(b)-encodes)/changes, "encodes/op")
		})
	}
}

// fanOut is a daemon and its subscribers.
type fanOut struct {
	daemon      *podconfigd
	dir         *directory
	subscribers int
	// changes counts the changes, delivered the pods that subscribers have read.
	changes   int
	delivered atomic.Int64
	// news gets a value after delivered has grown.
	news     chan struct{}
	failures chan error
}

func newFanOut(tb testing.TB, subscribers int, args ...string) *fanOut {
	tb.Helper()
	f := &fanOut{
		dir: newDirectory(tb), subscribers: subscribers,
		news: make(chan struct{}, 1), failures: make(chan error, subscribers),
	}
	for i := range changers {
		f.dir.put(tb, changer(i, 0))
	}
	f.daemon = startPodconfigd(tb, f.dir, args...)
	var reads sync.WaitGroup
	tb.Cleanup(reads.Wait) // after the subscribers are closed
	for range subscribers {
		s := f.daemon.subscribe(tb)
		if err := s.untilReady(); err != nil {
			tb.Fatal(err)
		}
		reads.Go(func() { f.failures <- f.read(s) })
	}
	return f
}

func changer(i, version int) manifest {
	name := fmt.Sprintf("pod-%04d", i)
	return manifest{name: name, version: strconv.Itoa(version), uid: "uid-of-" + name}
}

// read counts the pods of the subscriber, until its stream ends.
func (f *fanOut) read(s *subscriber) error {
	for {
		event, err := s.next()
		if err != nil {
			return err
		}
		if event.Op == "UPDATE" {
			f.delivered.Add(int64(event.Pods))
			select {
			case f.news <- struct{}{}:
			default:
			}
		}
	}
}

// change changes the next manifest, as soon as the window allows it.
func (f *fanOut) change(tb testing.TB) {
	tb.Helper()
	f.settle(tb, window-1)
	f.dir.put(tb, changer(f.changes%changers, f.changes+1))
	f.changes++
}

// settle waits until at most underWay changes are in flight.
func (f *fanOut) settle(tb testing.TB, underWay int) {
	tb.Helper()
	enough := int64(f.changes-underWay) * int64(f.subscribers)
	if f.delivered.Load() >= enough {
		return
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for f.delivered.Load() < enough {
		select {
		case <-f.news:
		case err := <-f.failures:
			tb.Fatal(err)
		case <-timeout.C:
			tb.Fatalf("%d of %d deliveries after %v", f.delivered.Load(), enough, patience)
		}
	}
}

// encodes returns the number of versions of pods that the daemon has encoded.
func (f *fanOut) encodes(tb testing.TB) float64 {
	tb.Helper()
	return f.daemon.metric(tb, `podconfigd_journal_pod_encodes_total{form="json"}`)
}
