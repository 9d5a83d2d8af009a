package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// blocking is more than the number of containers, created and removed, after which
// containerd blocks if a client does not receive their events. It keeps 100 events for a
// client, and what fits into the connection; see churn. Measured with containerd 2.4: 52.
const blocking = 100

// churn creates and removes containers until the test ends. It returns their number so far.
// Their events are large, so that few of them fit into a connection.
func churn(t *testing.T, r *components.Runtime) (removed func() int64) {
	t.Helper()
	var n atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprint("churn", i)
		sandbox := r.Sandbox(t, name, name)
		request := &runtimeapi.CreateContainerRequest{
			PodSandboxId:  sandbox,
			SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name}},
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: components.Image},
				Annotations: map[string]string{"example.com/large": strings.Repeat("x", 32<<10)},
			},
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				created, err := r.CRI.CreateContainer(ctx, request)
				if err == nil {
					_, err = r.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: created.GetContainerId()})
				}
				if err == nil {
					n.Add(1)
				} else if ctx.Err() == nil {
					t.Errorf("churn: %v", err)
					return
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return n.Load
}

// containerd blocks all of its clients if one stops to receive events. The watchdog of the
// service manager ends a stopped daemon, and containerd works on.
func TestAStoppedDaemonIsRestarted(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	r := components.StartRuntime(t, components.Containerd)
	s := e2e.Supervise(t, 4*time.Second, "--container-runtime-endpoint", "unix://"+r.Socket)
	ready := func(times int) {
		t.Helper()
		testutil.Until(t, "READY=1", func() bool { n, _ := s.Seen("READY=1"); return n >= times })
		if err := s.Client.Ping(t.Context()); err != nil {
			t.Errorf("after READY=1: %v", err)
		}
	}
	receives := func() {
		t.Helper()
		testutil.Until(t, "events are received", func() bool {
			status, err := s.Client.Status(t.Context())
			return err == nil && status.Runtime.Received > 0
		})
	}
	ready(1)
	removed := churn(t, r)
	receives()
	testutil.Until(t, "pings and STATUS, during churn", func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return s.Notes["WATCHDOG=1"] >= 3 && s.Status == "Serving 0 pods" && removed() > 0
	})
	s.Mu.Lock()
	process, kills := s.Process, s.Kills // a busy machine may have been too slow for the watchdog
	s.Mu.Unlock()

	before, begin := removed(), time.Now()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the watchdog expires", func() bool { _, n := s.Seen(""); return n > kills })
	t.Logf("the daemon was killed after %v; %d containers in the meantime", time.Since(begin), removed()-before)
	ready(kills + 2)
	testutil.Until(t, "containerd works on", func() bool { return removed()-before > blocking })
	receives()
	s.Stop()
	testutil.Until(t, "STOPPING=1", func() bool { n, _ := s.Seen("STOPPING=1"); return n == 1 })
}

// A daemon that requests no events blocks nothing while it is stopped.
func TestAStoppedDaemonWithoutEvents(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	r := components.StartRuntime(t, components.Containerd)
	proxy := r.Proxy(t)
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+proxy.Socket, "--container-runtime-events=false", "--pleg-relist-period=100ms")
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	testutil.Until(t, "lists", func() bool { return proxy.Calls("ListContainers") > 5 })
	matches(t, d, []string{"status"}, `(?m)^unix\S+ +relisting +0 +0 `, `(?m)^Received: +0 events from the runtime$`,
		`(?m)^Events: +turned off with --container-runtime-events=false$`)
	if err := d.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	removed := churn(t, r)
	testutil.Until(t, "containerd works", func() bool { return removed() > blocking })
	if n := proxy.Calls("GetContainerEvents"); n > 0 {
		t.Errorf("events were requested %d times", n)
	}
}
