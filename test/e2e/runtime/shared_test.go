package runtime

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// stops are the containers whose end the runtime announced to a client.
type stops struct {
	mu  sync.Mutex
	ids map[string]bool
}

// listen reads the events of the runtime as a kubelet does, until the test ends.
func listen(t *testing.T, r *components.Runtime) *stops {
	t.Helper()
	s := &stops{ids: make(map[string]bool)}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := r.CRI.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
				s.mu.Lock()
				s.ids[e.GetContainerId()] = true
				s.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func (s *stops) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// A daemon that has just started again, beside a kubelet that reads the events: it takes none of the kubelet's, and knows what
// the runtime has after two relist periods. containerd 1.7 gives each event to one of its clients only.
func TestEventsBesideAKubelet(t *testing.T) {
	if testing.Short() {
		t.Skip("runs containerd")
	}
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			r := components.StartRuntime(t, name)
			kubelet := listen(t, r)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			d := e2e.Start(t, dir, "--container-runtime-endpoint", r.Socket)
			testutil.Until(t, "a list", func() bool {
				status, err := d.Client.Status(t.Context())
				return err == nil && status.Runtime.Relists > 0
			})
			if _, err := d.End(t, syscall.SIGTERM); err != nil {
				t.Log(err)
			}
			d = e2e.Start(t, dir, "--container-runtime-endpoint", r.Socket)
			sandbox := r.Sandbox(t, "p", "uid")
			var ids []string
			for i := range 4 { // if each event went to one of two, one would be wrong
				ids = append(ids, r.Create(t, sandbox, "p", "uid", fmt.Sprint("c", i), "pause"))
				r.StartContainer(t, ids[i])
			}
			state := func(id string) string {
				answer, err := d.Client.Lookup(t.Context(), client.LookupQuery{ContainerID: id})
				if err != nil || answer.Pods[0].Container == nil {
					return fmt.Sprint(err)
				}
				return answer.Pods[0].Container.State
			}
			for _, id := range ids {
				testutil.Until(t, "a container runs", func() bool { return state(id) == "running" })
				r.KillContainer(t, id, syscall.SIGKILL)
				r.ExitCode(t, id)
				testutil.Within(t, 3*time.Second, "to know the end of a container", func() time.Duration { // short: two relist periods, tried ten times
					begin := time.Now()
					testutil.Until(t, "the end is known", func() bool { return state(id) == "exited" })
					return time.Since(begin)
				})
			}
			if name != components.DebianContainerd { // which has no events
				testutil.Until(t, "the kubelet has all events", func() bool { return kubelet.count() == len(ids) })
			}
			status, err := d.Client.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := status.Runtime.Events, name == components.Containerd; got != want {
				t.Errorf("events are used: %t, %q", got, status.Runtime.EventsError)
			}
		})
	}
}
