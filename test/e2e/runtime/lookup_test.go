package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// lookup returns the only pod of an answer, as "source namespace/name container state".
func lookup(t *testing.T, d *e2e.Daemon, q client.LookupQuery) (string, *v1alpha1.LookupPod) {
	t.Helper()
	answer, err := d.Client.Lookup(t.Context(), q)
	if err != nil {
		refused, ok := errors.AsType[*client.RefusedError](err)
		if !ok {
			t.Fatal(err)
		}
		return fmt.Sprint(refused.Code, " ", refused.Message), nil
	}
	if len(answer.Pods) != 1 {
		t.Fatalf("%+v: got %d pods, want one", q, len(answer.Pods))
	}
	p := &answer.Pods[0]
	shown := cmp.Or(p.Source, "orphan") + " " + p.Namespace + "/" + p.Name
	if c := p.Container; c != nil {
		shown += " " + c.Name + " " + c.State
	}
	return shown, p
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			args := []string{"--container-runtime-endpoint", "unix://" + r.Socket, "--node-ip", "192.0.2.7", "--state-dir", filepath.Join(dir, "state")}
			d := e2e.Start(t, dir, args...)
			t.Cleanup(func() { d.Client.CloseIdleConnections() })
			pods := d.Watch(t, client.Options{})
			e2e.SyncUp(t, pods)
			d.Put(t, "web", components.Image)
			pods.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")
			expect := func(want string, q client.LookupQuery) *v1alpha1.LookupPod {
				t.Helper()
				q.Wait = cmp.Or(q.Wait, time.Minute)
				got, pod := lookup(t, d, q)
				// The runtime may have been listed before it started what it had created.
				for deadline := time.Now().Add(time.Minute); strings.HasSuffix(got, " created") && time.Now().Before(deadline); {
					got, pod = lookup(t, d, q)
				}
				if got != want {
					t.Errorf("%+v: got %s, want %s", q, got, want)
				}
				return pod
			}
			expect("file default/web-node1", client.LookupQuery{PodUID: uid})

			sandbox := r.Sandbox(t, "web-node1", uid)
			if p := expect("file default/web-node1  running", client.LookupQuery{ContainerID: sandbox}); p != nil && !p.Container.Sandbox {
				t.Error("the sandbox is not marked")
			}
			c := r.Create(t, sandbox, "web-node1", uid, "c", "pause")
			r.StartContainer(t, c)
			pid := r.PID(t, c)
			expect("file default/web-node1 c running", client.LookupQuery{PID: pid})
			var start uint64
			testutil.Until(t, "the process is known as the first one of the container", func() bool {
				_, p := lookup(t, d, client.LookupQuery{PID: pid})
				start = p.Container.StartTime
				return p.Container.PID == pid
			})
			ran := time.Now().Format(time.RFC3339Nano)
			expect("file default/web-node1 c running", client.LookupQuery{ContainerID: "containerd://" + c})
			expect("file default/web-node1  running", client.LookupQuery{PID: r.SandboxPID(t, sandbox)})

			row := `(?m)^default +web-node1 +c +running +file`
			matches(t, d, []string{"lookup", fmt.Sprint(pid)}, row+"$")
			matches(t, d, []string{"lookup", c[:13]}, row+"$")
			matches(t, d, []string{"lookup", "-o", "wide", "cri://" + c[:13]}, row+` +`+uid+` .* `+c+"$")
			matches(t, d, []string{"lookup", sandbox}, `(?m)^default +web-node1 +<sandbox> +running +file$`)

			// A pod on the network of the host has the IP of the node.
			d.PutFile(t, "host", strings.Replace(e2e.HostManifest, "name: web", "name: host", 1))
			expect("file default/host-node1", client.LookupQuery{PodIP: "::ffff:192.0.2.7"})

			stray := r.Sandbox(t, "stray", "stray")
			// A lookup that waits no longer than the pause between two lists can end before it.
			testutil.Until(t, "the stray sandbox is an orphan", func() bool {
				got, _ := lookup(t, d, client.LookupQuery{ContainerID: stray, Wait: time.Second})
				return got == "orphan default/stray  running"
			})
			expect("orphan default/stray", client.LookupQuery{PodUID: "stray", Wait: time.Second})

			r.RemoveContainer(t, c)
			testutil.Until(t, "the container ended", func() bool {
				got, p := lookup(t, d, client.LookupQuery{ContainerID: c})
				return got == "file default/web-node1 c exited" && p.Container.Ended != nil && p.Ended == nil
			})
			expect(fmt.Sprintf("%d looking up process %d: there is no such process in the PID namespace of podconfigd", http.StatusNotFound, pid),
				client.LookupQuery{PID: pid})
			expect("file default/web-node1 c exited", client.LookupQuery{PID: pid, At: ran})
			expect("file default/web-node1 c exited", client.LookupQuery{PID: pid, StartTime: start})
			none := fmt.Sprintf("%d looking up container none: the container runtime does not have it", http.StatusNotFound)
			testutil.Until(t, none, func() bool {
				got, _ := lookup(t, d, client.LookupQuery{ContainerID: "none", Wait: 3 * time.Second})
				return got == none
			})

			// The pod ends with its second container, and podconfigd restarts.
			c = r.Create(t, sandbox, "web-node1", uid, "c", "pause")
			r.StartContainer(t, c)
			testutil.Until(t, "the status has the second container", func() bool {
				list, err := d.Client.Pods(t.Context())
				return err == nil && slices.ContainsFunc(list.Items, func(p v1.Pod) bool {
					s := p.Status.ContainerStatuses
					return string(p.UID) == uid && len(s) == 1 && s[0].ContainerID == "containerd://"+c
				})
			})
			if err := os.Remove(filepath.Join(dir, "manifests", "web.yaml")); err != nil {
				t.Fatal(err)
			}
			r.RemoveContainer(t, c)
			ended := func(which string) {
				t.Helper()
				testutil.Until(t, which+": the container of the pod that ended is known", func() bool {
					got, p := lookup(t, d, client.LookupQuery{ContainerID: c})
					return strings.HasPrefix(got, "file default/web-node1 c ") && p.Ended != nil && p.Container.Name == "c"
				})
			}
			ended("before the restart")
			d = d.Again(t, func() {}, args...)
			testutil.Until(t, "podconfigd answers", func() bool { return d.Client.Ping(t.Context()) == nil })
			ended("after it")
		})
	}
}

// While the runtime hangs, a container that podconfigd does not know is not said to be absent.
func TestLookupWhileTheRuntimeHangs(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	r := components.StartRuntime(t, components.Containerd)
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
	t.Cleanup(d.Client.CloseIdleConnections)
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	absent := fmt.Sprintf("%d looking up container none: the container runtime does not have it", http.StatusNotFound)
	lookup := func() string {
		got, _ := lookup(t, d, client.LookupQuery{ContainerID: "none", Wait: 3 * time.Second})
		return got
	}
	testutil.Until(t, absent, func() bool { return lookup() == absent })
	r.Signal(t, syscall.SIGSTOP)
	want := fmt.Sprintf("%d looking up container none: the container runtime has not answered for ", http.StatusServiceUnavailable)
	// The pause before the next list is ten times as long as the last list took.
	testutil.Until(t, "a lookup is answered with "+want, func() bool { return strings.HasPrefix(lookup(), want) })
	r.Signal(t, syscall.SIGCONT)
	testutil.Until(t, "the runtime answers", func() bool { return lookup() == absent })
}
