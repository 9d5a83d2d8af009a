package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A static pod has the status of its containers, on each interface, and across a restart.
func TestStatusFromTheRuntime(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			args := []string{"--container-runtime-endpoint", "unix://" + r.Socket, "--node-ip", "192.0.2.7", "--state-dir", dir + "/state"}
			d := e2e.Start(t, dir, args...)
			s := d.Watch(t, client.Options{})
			e2e.SyncUp(t, s)
			d.PutFile(t, "web", e2e.HostManifest)
			s.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")
			version, err := r.CRI.Version(t.Context(), &runtimeapi.VersionRequest{})
			if err != nil {
				t.Fatal(err)
			}

			sandbox := r.Sandbox(t, "web-node1", uid)
			c := r.Create(t, sandbox, "web-node1", uid, "c", "sleep", "300ms", "3")
			r.StartContainer(t, c)
			died := s.Shown(t, "the exit", func(p *v1.Pod) bool {
				return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Terminated != nil
			})
			got := died.Pods[0].Status.ContainerStatuses[0]
			if ended := got.State.Terminated; ended.ExitCode != 3 || ended.Reason != "Error" || ended.ContainerID != version.RuntimeName+"://"+c {
				t.Errorf("the terminated state is %+v", ended)
			}
			running := r.CreateAttempt(t, sandbox, "web-node1", uid, "c", 1, "pause")
			r.StartContainer(t, running)
			up := s.Shown(t, "a running container", func(p *v1.Pod) bool {
				c := p.Status.ContainerStatuses
				return len(c) == 1 && c[0].State.Running != nil
			})
			status := up.Pods[0].Status
			if status.Phase != v1.PodRunning || status.HostIP != "192.0.2.7" || status.PodIP != "192.0.2.7" || status.StartTime == nil || status.QOSClass == "" {
				t.Errorf("the status is %+v", status)
			}
			if c := status.ContainerStatuses[0]; c.RestartCount != 1 || !c.Ready || c.LastTerminationState.Terminated == nil || c.ContainerID != version.RuntimeName+"://"+running {
				t.Errorf("the container's status is %+v", c)
			}
			sameStatus(t, d, status)
			matches(t, d, []string{"get", "pods"}, `(?m)^default +web-node1 +1/1 +`)
			matches(t, d, []string{"status", "web"}, `^Health: +Healthy: all containers run and are ready\n`,
				`(?m)^Status: +Running, 1/1 ready, 1 `, `(?m)^Sandbox: +created \S+ ago$`, `(?m)^\S+ +running +true +1 +\S+ `)

			d = d.Again(t, func() { r.KillContainer(t, running, syscall.SIGKILL) }, args...)
			again := d.Watch(t, client.Options{Instance: up.Instance, Since: up.Revision})
			after := again.Shown(t, "the stop", func(p *v1.Pod) bool {
				c := p.Status.ContainerStatuses
				return len(c) == 1 && c[0].State.Terminated != nil
			})
			if out, code := d.Run(t, "status", "web"); code != 2 || !strings.Contains(out, " ended with the exit code 137") || !strings.Contains(out, "run crictl logs "+running) {
				t.Errorf("status of the killed pod: %d\n%s", code, out)
			}
			if !after.Pods[0].Status.StartTime.Equal(status.StartTime) {
				t.Errorf("the pod started at %v, and after a restart of the daemon at %v", status.StartTime, after.Pods[0].Status.StartTime)
			}
		})
	}
}

// sameStatus compares the status of the only pod on each interface.
func sameStatus(t *testing.T, d *e2e.Daemon, want v1.PodStatus) {
	t.Helper()
	expect, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/pods", "/api/v1/pods", "/api/v1/namespaces/default/pods/web-node1"} {
		_, _, body := d.Ask(t, path)
		var list v1.PodList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "/pods") {
			list.Items = make([]v1.Pod, 1)
			if err := json.Unmarshal([]byte(body), &list.Items[0]); err != nil {
				t.Fatal(err)
			}
		}
		got, err := json.Marshal(list.Items[0].Status)
		if err != nil || !bytes.Equal(got, expect) {
			t.Errorf("%s has another status (%v):\n%s\n%s", path, err, got, expect)
		}
	}
}

// A crash loop makes at most one RECONCILE a second after the first three, and the last state always comes.
func TestCrashLoopIsLimited(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	r := components.StartRuntime(t, components.Containerd)
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	d.PutFile(t, "web", e2e.HostManifest)
	s.Expect(t, "ADD web-node1")
	uid := uid(t, d, "web-node1")
	sandbox := r.Sandbox(t, "web-node1", uid)
	var last string
	for n := range uint32(8) {
		last = r.CreateAttempt(t, sandbox, "web-node1", uid, "c", n, "sleep", "1ms", fmt.Sprint(n+1))
		r.StartContainer(t, last)
		r.ExitCode(t, last)
	}
	var times []time.Time
	s.Shown(t, "the last exit", func(p *v1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) == 1 && c[0].State.Terminated != nil && strings.HasSuffix(c[0].State.Terminated.ContainerID, last)
	}, func(u *v1alpha1.Update) {
		if u.Time != nil { // a bookmark has none
			times = append(times, *u.Time)
		}
	})
	// They are one second apart when they are made, and take a while until they have a time.
	if total, n := times[len(times)-1].Sub(times[0]), len(times); total < time.Duration(n-4)*time.Second {
		t.Errorf("there were %d in %v", n, total)
	}
}
