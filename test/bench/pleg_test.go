package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
	"github.com/podconfigd/podconfigd/test/components"
)

// ways are the ways in which the daemon gets the changes of each runtime.
var ways = []struct {
	name, runtime string
	events        bool
}{
	{"events", components.Containerd, true},
	{"relisting", components.DebianContainerd, false},
}

// runtimeStatus returns the daemon's status of the runtime.
func (p *podconfigd) runtimeStatus(tb testing.TB) *v1alpha1.RuntimeStatus {
	tb.Helper()
	body := p.get(tb.Context(), tb, "/v1alpha1/status")
	defer body.Close()
	var status v1alpha1.Status
	if err := json.NewDecoder(body).Decode(&status); err != nil {
		tb.Fatal(err)
	}
	return status.Runtime
}

// settle waits until the daemon has the pods, and has opened the event stream if the runtime has one.
func (p *podconfigd) settle(tb testing.TB, pods int, events bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; pause(tb, 50*time.Millisecond) {
		s := p.runtimeStatus(tb)
		open := s.Events || s.EventsError == "the event stream has announced no change yet"
		if s.Pods == pods && open == events {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the daemon says of the runtime %+v, want %d pods", s, pods)
		}
	}
}

// BenchmarkPLEGExitToStream measures the time from the end of a container's process until
// a subscriber has read its PLEG. Each op is the end of one container. Lists are a second
// apart, so relisting takes half a second on average. If the runtime sends events, own-…
// is the part of the time after another client of the runtime has the event. Before
// containerd sends it, it deletes the container in runc and writes its state to the disk.
func BenchmarkPLEGExitToStream(b *testing.B) {
	for _, way := range ways {
		b.Run("way="+way.name, func(b *testing.B) {
			r := components.StartRuntime(b, way.runtime)
			sandbox := r.Sandbox(b, "p", "uid")
			p := startPodconfigd(b, newDirectoryOf(b, 0), "--container-runtime-endpoint", r.Socket)
			p.settle(b, 1, way.events)
			body := p.get(b.Context(), b, "/v1alpha1/updates?ops=PLEG")
			defer body.Close()
			lines := bufio.NewReaderSize(body, peer.LongestLine)
			var stopped <-chan time.Duration
			if way.events {
				stopped = runtimeStops(b, r)
			}
			var times, own []time.Duration
			for b.Loop() {
				killed, read := exitToStream(b, r, sandbox, lines)
				times = append(times, read-killed)
				if stopped != nil {
					own = append(own, max(0, read-<-stopped))
				}
			}
			report(b, times, 50, 99, 100)
			if len(own) > 0 {
				slices.Sort(own)
				b.ReportMetric(own[(len(own)-1)/2].Seconds()*1e3, "own-p50-ms")
				b.ReportMetric(own[(len(own)-1)*99/100].Seconds()*1e3, "own-p99-ms")
			}
		})
	}
}

// runtimeStops returns the times of the runtime's own events of stopped containers.
func runtimeStops(b *testing.B, r *components.Runtime) <-chan time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	stream, err := r.CRI.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		b.Fatal(err)
	}
	stopped := make(chan time.Duration, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
				stopped <- peer.Now()
			}
		}
	})
	b.Cleanup(func() { cancel(); wg.Wait() })
	return stopped
}

// exitToStream ends a container at a random time, and returns this time and the time of
// its PLEG.
func exitToStream(b *testing.B, r *components.Runtime, sandbox string, lines *bufio.Reader) (killed, read time.Duration) {
	b.Helper()
	id := r.Create(b, sandbox, "p", "uid", "c", "pause")
	r.StartContainer(b, id)
	await(b, lines, "ContainerStarted", id)
	pid := r.PID(b, id)
	pause(b, rand.N(time.Second))
	killed = peer.Now()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	await(b, lines, "ContainerDied", id)
	read = peer.Now()
	r.RemoveContainer(b, id)
	return killed, read
}

// await reads the stream until the event of the container.
func await(b *testing.B, lines *bufio.Reader, event, id string) {
	b.Helper()
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if bytes.Contains(line, []byte(event)) && bytes.Contains(line, []byte(id)) {
			return
		}
	}
}

// restPeriod is how long the processor time of an idle daemon is measured.
const restPeriod = 20 * time.Second

// BenchmarkPLEGRelist measures the cost for the daemon and the runtime while nothing
// changes and the daemon lists the runtime every second. The sandboxes run. The three
// containers of each are created and do not run, but a list has them too.
func BenchmarkPLEGRelist(b *testing.B) {
	for _, pods := range []int{0, 110, 500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			r := components.StartRuntime(b, components.DebianContainerd)
			var wg sync.WaitGroup
			next := make(chan int)
			for range 4 {
				wg.Go(func() {
					for i := range next {
						name := fmt.Sprintf("pod-%03d", i)
						sandbox := r.Sandbox(b, name, name)
						for c := range 3 {
							r.Create(b, sandbox, name, name, fmt.Sprint("c", c), "pause")
						}
					}
				})
			}
			for i := range pods {
				next <- i
			}
			close(next)
			wg.Wait()
			p := startPodconfigd(b, newDirectoryOf(b, 0), "--container-runtime-endpoint", r.Socket)
			p.settle(b, pods, false)
			runtime := &process{pid: r.Pid()}
			ours, theirs, begin := p.cpu(b), runtime.cpu(b), peer.Now()
			for b.Loop() {
				pause(b, restPeriod)
			}
			took := peer.Now() - begin
			b.ReportMetric(100*float64(p.cpu(b)-ours)/float64(took), "cpu-%")
			b.ReportMetric(100*float64(runtime.cpu(b)-theirs)/float64(took), "runtime-cpu-%")
			status := p.runtimeStatus(b)
			b.ReportMetric(1e3*status.RelistP50Seconds, "p50-ms")
			b.ReportMetric(1e3*status.RelistP99Seconds, "p99-ms")
		})
	}
}
