package bench

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// states are the daemons with and without a state directory.
var states = []string{"none", "dir"}

// stateArgs returns the arguments of a daemon.
func stateArgs(tb testing.TB, state string) []string {
	tb.Helper()
	if state == "none" {
		return nil
	}
	return []string{"--state-dir", tb.TempDir()}
}

// BenchmarkStateFileToStream is BenchmarkFileToStream with and without a state directory.
// Both daemons run all the time, and their directories change in turns, so that noise of
// the machine meets both.
func BenchmarkStateFileToStream(b *testing.B) {
	const others = 110
	changing := manifest{name: "changing"}
	dirs, followers := make([]*directory, len(states)), make([]*follower, len(states))
	for i, state := range states {
		dirs[i] = newDirectoryOf(b, others)
		dirs[i].put(b, changing)
		p := startPodconfigd(b, dirs[i], stateArgs(b, state)...)
		followers[i] = follow(b.Context(), p.process, p.subscribe(b).next)
		followers[i].first(b)
	}
	pause(b, arming)
	change := func(i, version int) time.Duration {
		pause(b, pace)
		changing.version = strconv.Itoa(version)
		renamed := dirs[i].put(b, changing)
		return followers[i].await(b, changing.version) - renamed
	}
	times := make([][]time.Duration, len(states))
	for n := 1; b.Loop(); n++ {
		for turn := range states {
			i := (turn + n) % len(states)
			if took := change(i, n); n > warmUp {
				times[i] = append(times[i], took)
			}
		}
	}
	for i, state := range states {
		reportAs(b, state+"-", times[i], 50, 99)
	}
}

// handler is a journal of a sync loop without a runtime.
type handler struct{ *journal.Journal }

func (handler) HandlePodLifecycleEvent(context.Context, *v1.Pod, *pleg.PodLifecycleEvent) {}

// BenchmarkStateBurst is a burst of 2,000 watch events, each of one of 500 pods: from the
// UndeltaStore through the merge, the sync loop and the journal to a subscriber.
func BenchmarkStateBurst(b *testing.B) {
	const pods, events = 500, 2000
	for _, state := range states {
		b.Run("state="+state, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			opts := journal.Options{Sources: []string{"api"}}
			stopped, run := make(chan struct{}), func() {}
			if state == "dir" {
				log, recovered, err := store.Open(store.Options{Dir: b.TempDir(), Node: nodeName})
				if err != nil {
					b.Fatal(err)
				}
				opts.Store, opts.Recovered = log, &recovered.Recovered
				defer func() { <-stopped }()
				run = func() {
					defer close(stopped)
					_ = log.Run(ctx) // the cause of the context
				}
			}
			defer cancel()
			j := journal.New(opts)
			go run()
			c := config.NewPodConfig()
			sets := c.Channel("api")
			go func() { _ = c.Run(ctx) }()
			loop := syncloop.New(syncloop.Options{Handler: handler{j}, SourcesReady: j})
			go func() { _ = loop.Run(ctx, c.Updates()) }()
			undelta := cache.NewUndeltaStore(func(objects []any) {
				set := make([]*v1.Pod, 0, len(objects))
				for _, object := range objects {
					if pod, ok := object.(*v1.Pod); ok {
						set = append(set, pod)
					}
				}
				sets <- config.SourceSet{Pods: set}
			}, cache.MetaNamespaceKeyFunc)
			objects := make([]any, pods)
			for i := range objects {
				objects[i] = mergedPod(i, 0)
			}
			if err := undelta.Replace(objects, "1"); err != nil {
				b.Fatal(err)
			}
			if err := j.WaitKnown(ctx); err != nil {
				b.Fatal(err)
			}
			cursor := view.Stream(j, view.StreamOptions{})
			defer cursor.Close()
			version := 0
			burst := make([]*v1.Pod, events)
			for b.Loop() {
				b.StopTimer()
				for i := range burst {
					version++
					burst[i] = mergedPod(version%pods, version)
				}
				b.StartTimer()
				go func() {
					for _, pod := range burst {
						_ = undelta.Update(pod)
					}
				}()
				for got := 0; got < events; {
					got += updatesOf(ctx, b, cursor)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
		})
	}
}

// updatesOf reads from the cursor and returns the number of updated pods.
func updatesOf(ctx context.Context, b *testing.B, cursor *view.Cursor) (n int) {
	b.Helper()
	frames, err := cursor.Next(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range frames {
		if f.Op == config.UPDATE {
			n += len(f.Pods)
		}
	}
	return n
}

// BenchmarkStateRestore measures the time from the start of the process until a
// subscriber has all restored pods, after a kill -9. The sources have nothing to read.
func BenchmarkStateRestore(b *testing.B) {
	const pods = 500
	dir, args := newDirectoryOf(b, pods), stateArgs(b, "dir")
	p := startPodconfigd(b, dir, args...)
	if n, _ := follow(b.Context(), p.process, p.subscribe(b).next).first(b); n != pods {
		b.Fatalf("%d pods", n)
	}
	var times []time.Duration
	for b.Loop() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		p.stop()
		p = startPodconfigd(b, dir, args...)
		f := follow(b.Context(), p.process, p.subscribe(b).next)
		for got := 0; got < pods; {
			event := f.next(b)
			if got += event.Pods; got == pods {
				times = append(times, event.At-event.Started)
			}
		}
	}
	p.stop()
	report(b, times, 50, 100)
}
