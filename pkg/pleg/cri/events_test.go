package cri_test

import (
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/testutil/fakecri"
)

// announce is a stream that announces one container after the other.
func announce(out runtimeapi.RuntimeService_GetContainerEventsServer) error {
	for i := 0; ; i++ {
		c := fakecri.Running(fmt.Sprint("c", i), "s", "c")
		if err := out.Send(&runtimeapi.ContainerEventResponse{
			ContainerId: c.GetId(), ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, CreatedAt: time.Now().UnixNano(),
			PodSandboxStatus: fakecri.Sandbox("s", "u", "p"), ContainersStatuses: []*runtimeapi.ContainerStatus{c.ContainerStatus},
		}); err != nil {
			return err
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The stream of a runtime is used if it gives each event to all of its clients. Otherwise, the status says why not, and the
// kubelet gets its events.
func TestWhichStreamsAreUsed(t *testing.T) {
	ends := func(runtimeapi.RuntimeService_GetContainerEventsServer) error { return nil }
	const shares = " gives each event to one of its clients only, containerd 2 to all"
	for name, test := range map[string]struct {
		runtime, version string
		stream           func(runtimeapi.RuntimeService_GetContainerEventsServer) error
		reason           string // empty if the stream is used
		opened           bool
	}{
		"containerd 1.6":                   {"containerd", "1.6.20~ds1", nil, "the runtime has no event stream that can be used: containerd 1.6.20~ds1" + shares, false},
		"containerd 1.7":                   {"containerd", "1.7.27", announce, "the runtime has no event stream that can be used: containerd 1.7.27" + shares, false},
		"containerd 1.7 with a v":          {"containerd", "v1.7.27-k3s1", announce, "the runtime has no event stream that can be used: containerd v1.7.27-k3s1" + shares, false},
		"containerd of an unknown version": {"containerd", "unknown", announce, "the runtime has no event stream that can be used: containerd unknown" + shares, false},
		"containerd 2":                     {"containerd", "2.0.0-rc.1", announce, "", true},
		"containerd 2.4":                   {"containerd", "v2.4.2", announce, "", true},
		"containerd 10":                    {"containerd", "10.0.0", announce, "", true},
		"CRI-O":                            {"cri-o", "1.34.0", announce, "", true},
		"CRI-O without enable_pod_events":  {"cri-o", "1.34.0", ends, "the runtime has no event stream: it ends at once; CRI-O has one with enable_pod_events = true", true},
		"another one without events":       {"other", "1", nil, "the runtime has no event stream: rpc error: code = Unimplemented desc = method GetContainerEvents not implemented", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakecri.Start(t)
			c.Change(func(s *fakecri.State) { s.Name, s.Version, s.Stream = test.runtime, test.version, test.stream })
			w := watch(t, c.Socket, pleg.Options{})
			until(t, "the use of the stream", func() bool {
				s := w.Status()
				return s.Evented && test.reason == "" || s.StreamError == test.reason && test.reason != ""
			})
			if n := c.Calls("GetContainerEvents"); (n > 0) != test.opened {
				t.Errorf("the stream was opened %d times", n)
			}
		})
	}
}
