package runtime

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// containerStream reads the stream of containers.
type containerStream struct {
	t    *testing.T
	next func() (*v1alpha1.ContainerUpdate, error, bool)
	// revision is that of the last line that had one.
	revision int64
}

func watchContainers(t *testing.T, d *e2e.Daemon, opts client.ContainerOptions) *containerStream {
	t.Helper()
	next, stop := iter.Pull2(d.Client.WatchContainers(t.Context(), opts))
	t.Cleanup(stop)
	return &containerStream{t: t, next: next, revision: opts.Since}
}

// callContainers reads the same stream over gRPC.
func callContainers(t *testing.T, d *e2e.Daemon, request *podconfigd.WatchContainersRequest) *containerStream {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+d.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := podconfigd.NewPodConfigClient(conn).WatchContainers(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return &containerStream{t: t, revision: request.GetSince(), next: func() (*v1alpha1.ContainerUpdate, error, bool) {
		m, err := stream.Recv()
		if err != nil {
			return nil, err, false
		}
		u := &v1alpha1.ContainerUpdate{
			Instance: m.GetInstance(), Revision: m.GetRevision(), Op: v1alpha1.Op(strings.TrimPrefix(m.GetOp().String(), "OPERATION_")),
			InitialSyncComplete: m.GetInitialSyncComplete(), Reset: m.GetReset_(), Message: m.GetMessage(),
		}
		if c, pod := m.GetContainer().GetContainer(), m.GetContainer().GetPod(); c != nil {
			u.Container = &v1alpha1.PodContainer{
				LookupContainer: v1alpha1.LookupContainer{ID: c.GetId(), Name: c.GetName(), State: c.GetState(), PID: int(c.GetPid()), CgroupID: c.GetCgroupId()},
				Pod:             v1alpha1.ContainerPod{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid(), Source: pod.GetSource()},
			}
		}
		return u, nil, true
	}}
}

// until returns the first line that matches, as "OP source namespace/name container state".
func (s *containerStream) until(want string) *v1alpha1.ContainerUpdate {
	s.t.Helper()
	for {
		u, err, ok := s.next()
		if err != nil || !ok {
			s.t.Fatalf("waiting for %s: %v", want, err)
		}
		if u.Revision != 0 && u.Revision <= s.revision {
			s.t.Errorf("revision %d after %d", u.Revision, s.revision)
		}
		s.revision = max(s.revision, u.Revision)
		got := string(u.Op)
		if u.Reset {
			got += " reset " + u.Message
		}
		if u.InitialSyncComplete {
			got += " complete"
		}
		if c := u.Container; c != nil {
			got += fmt.Sprint(" ", cmp.Or(c.Pod.Source, "orphan"), " ", c.Pod.Namespace, "/", c.Pod.Name, " ", cmp.Or(c.Name, "sandbox"), " ", c.State)
			if c.PID != 0 {
				got += fmt.Sprint(" ", c.PID)
			}
		}
		s.t.Log(u.Revision, got)
		if strings.HasPrefix(got, want) {
			return u
		}
	}
}

func TestContainers(t *testing.T) {
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket, "--node-ip", "192.0.2.7")
			t.Cleanup(func() { d.Client.CloseIdleConnections() })
			all := watchContainers(t, d, client.ContainerOptions{Labels: true})
			all.until("BOOKMARK complete")
			calls := callContainers(t, d, &podconfigd.WatchContainersRequest{})
			calls.until("BOOKMARK complete")
			d.Put(t, "web", components.Image)
			pods := d.Watch(t, client.Options{})
			pods.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")

			sandbox := r.Sandbox(t, "web-node1", uid)
			all.until("ADD file default/web-node1 sandbox")
			all.until(fmt.Sprint("UPDATE file default/web-node1 sandbox running ", r.SandboxPID(t, sandbox)))
			c := r.Create(t, sandbox, "web-node1", uid, "c", "pause")
			all.until("ADD file default/web-node1 c created")
			r.StartContainer(t, c)
			pid := r.PID(t, c)
			all.until("UPDATE file default/web-node1 c running")
			u := all.until(fmt.Sprint("UPDATE file default/web-node1 c running ", pid))
			if u.Container.ID != c || u.Container.Pod.UID != uid || u.Container.Cgroup == "" || u.Container.NetNS == 0 {
				t.Errorf("%+v", u.Container)
			}
			resumed := watchContainers(t, d, client.ContainerOptions{Instance: u.Instance, Since: u.Revision})

			r.Sandbox(t, "stray", "stray")
			all.until("ADD orphan default/stray sandbox")
			r.RemoveContainer(t, c)
			removed := all.until("REMOVE file default/web-node1 c exited")
			if e := removed.Container; e.Ended == nil || e.PID != pid || e.CgroupID != u.Container.CgroupID {
				t.Errorf("%+v", e)
			}
			calls.until(fmt.Sprint("UPDATE file default/web-node1 c running ", pid))
			for _, s := range []*containerStream{
				resumed, calls, callContainers(t, d, &podconfigd.WatchContainersRequest{Instance: u.Instance, Since: &u.Revision}),
			} {
				s.until("ADD orphan default/stray sandbox")
				got := s.until("REMOVE file default/web-node1 c exited")
				if got.Revision != removed.Revision || got.Container.ID != c || got.Container.CgroupID != removed.Container.CgroupID {
					t.Errorf("revision %d, %+v, want %d, %+v", got.Revision, got.Container, removed.Revision, removed.Container)
				}
			}
			list, err := d.Client.ListContainers(t.Context(), client.ContainerOptions{Source: "file"})
			if err != nil || len(list.Containers) != 1 || list.Containers[0].ID != sandbox || list.Revision < removed.Revision {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
