package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
	"github.com/podconfigd/podconfigd/test/components"
)

// BenchmarkContainers measures how much later than another client of the runtime's events a subscriber of the stream of containers
// has a line. Each op is the life of a container. created-… is from the event of its creation to its ADD, started-… from the event
// of its start to the UPDATE with the state running, and handles-… to the UPDATE with its process and cgroup ID.
func BenchmarkContainers(b *testing.B) {
	r := components.StartRuntime(b, components.Containerd)
	p := startPodconfigd(b, newDirectoryOf(b, 0), "--container-runtime-endpoint", r.Socket)
	p.settle(b, 0, true)
	times := timesOf{at: make(map[string]time.Duration)}
	ctx, cancel := context.WithCancel(b.Context())
	events, err := r.CRI.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := events.Recv()
			if err != nil {
				return
			}
			times.set(fmt.Sprint("event ", e.GetContainerEventType(), " ", e.GetContainerId()))
		}
	})
	complete := make(chan struct{})
	wg.Go(func() {
		for u, err := range client.New(p.socket).WatchContainers(ctx, client.ContainerOptions{Once: true}) {
			switch {
			case err != nil:
				return
			case u.InitialSyncComplete:
				close(complete)
			case u.Container != nil:
				c := u.Container
				times.set(fmt.Sprint("line ", c.State, " ", c.ID))
				if c.PID != 0 {
					times.set("line handles " + c.ID)
				}
			}
		}
	})
	b.Cleanup(func() { cancel(); wg.Wait() })
	<-complete
	sandbox := r.Sandbox(b, "p", "uid")
	var created, started, handles []time.Duration
	for b.Loop() {
		id := r.Create(b, sandbox, "p", "uid", "c", "pause")
		pause(b, 5*time.Millisecond)
		r.StartContainer(b, id)
		of := func(key string) time.Duration { return times.await(b, key+" "+id) }
		created = append(created, of("line created")-of("event CONTAINER_CREATED_EVENT"))
		started = append(started, of("line running")-of("event CONTAINER_STARTED_EVENT"))
		handles = append(handles, of("line handles")-of("event CONTAINER_STARTED_EVENT"))
		r.RemoveContainer(b, id)
		of("line exited")
	}
	for name, all := range map[string][]time.Duration{"created": created, "started": started, "handles": handles} {
		slices.Sort(all)
		b.ReportMetric(all[(len(all)-1)/2].Seconds()*1e3, name+"-p50-ms")
		b.ReportMetric(all[(len(all)-1)*99/100].Seconds()*1e3, name+"-p99-ms")
	}
}

// timesOf has when something was seen first.
type timesOf struct {
	mu sync.Mutex
	at map[string]time.Duration
}

func (t *timesOf) set(key string) {
	now := peer.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, seen := t.at[key]; !seen {
		t.at[key] = now
	}
}

func (t *timesOf) await(tb testing.TB, key string) time.Duration {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; pause(tb, time.Millisecond) {
		t.mu.Lock()
		at, seen := t.at[key]
		t.mu.Unlock()
		if seen {
			return at
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s did not come", key)
		}
	}
}
