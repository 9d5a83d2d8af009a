package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
)

// next returns the next update, as "OP type container exit-code" for those of PLEG, and
// otherwise "OP pod pod".
func (s *stream) next(t *testing.T, within time.Duration) string {
	t.Helper()
	select {
	case u := <-s.updates:
		line := u.Op
		if u.Event != nil {
			line += " " + u.Event.Type + " " + u.Event.Container
			if u.Event.ExitCode != nil {
				line += fmt.Sprint(" ", *u.Event.ExitCode)
			}
		}
		for _, p := range u.Pods {
			line += " " + p.Name
		}
		return line
	case <-time.After(within):
		t.Fatalf("no update for %v", within)
		return ""
	}
}

// expectAll waits for these updates, in whatever order, and passes over others.
func (s *stream) expectAll(t *testing.T, within time.Duration, want ...string) {
	t.Helper()
	deadline := time.Now().Add(within)
	var got []string
	for missing := want; len(missing) > 0; {
		line := s.next(t, time.Until(deadline))
		got = append(got, line)
		var left []string
		found := false
		for _, m := range missing {
			if m == line && !found {
				found = true
				continue
			}
			left = append(left, m)
		}
		missing = left
		if time.Now().After(deadline) && len(missing) > 0 {
			t.Fatalf("not within %v: %q; there was %q", within, missing, got)
		}
	}
}

func TestRuntimeOnTheStream(t *testing.T) {
	if testing.Short() {
		t.Skip("runs containerd")
	}
	for _, name := range components.Containerds {
		t.Run(name, func(t *testing.T) {
			r := components.StartRuntime(t, name)
			dir := shortDir(t)
			(&daemon{dir: dir}).mkdir(t)
			d := start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
			all, pods := d.watch(t, client.Options{Ops: "*"}), d.watch(t, client.Options{})
			syncUp(t, all)
			syncUp(t, pods)
			d.put(t, "web", components.Image)
			pods.expect(t, "ADD web-node1")
			uid := d.uid(t, "web-node1")

			sandbox := r.Sandbox(t, "web-node1", uid)
			all.expectAll(t, 5*time.Second, "PLEG ContainerStarted  web-node1", "SYNC web-node1")
			c := r.Create(t, sandbox, "web-node1", uid, "c", "sleep", "300ms", "3")
			r.StartContainer(t, c)
			all.expectAll(t, 5*time.Second, "PLEG ContainerDied c 3 web-node1", "SYNC web-node1")
			r.RemoveContainer(t, c)
			all.expectAll(t, 5*time.Second, "PLEG ContainerRemoved c web-node1")
			running := r.Create(t, sandbox, "web-node1", uid, "c", "pause")
			r.StartContainer(t, running)
			all.expectAll(t, 5*time.Second, "PLEG ContainerStarted c web-node1", "SYNC web-node1")
			if out, _ := d.run(t, "get", "pods"); !strings.Contains(out, "1/1") {
				t.Errorf("get pods:\n%s", out)
			}
			other := r.Sandbox(t, "stray", "stray")
			all.expectAll(t, 5*time.Second, "PLEG ContainerStarted  stray", "HOUSEKEEPING stray")
			r.RemoveSandbox(t, other)
			all.expectAll(t, 5*time.Second, "PLEG ContainerDied  stray", "PLEG ContainerRemoved  stray", "HOUSEKEEPING")

			if out, _ := d.run(t, "resync", "default/web-node1"); out != "pod/web-node1 resynced\n" {
				t.Errorf("resync: %s", out)
			}
			all.expectAll(t, 5*time.Second, "SYNC web-node1")
			if out, _ := d.run(t, "resync", "default/web-node1"); !strings.Contains(out, "too often") {
				t.Errorf("resync again: %s", out)
			}
			t.Log(d.run(t, "status"))
			t.Log(d.run(t, "get", "pods"))
		})
	}
}

// uid returns the UID of a present pod.
func (d *daemon) uid(t *testing.T, name string) string {
	t.Helper()
	list, err := d.client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Name == name {
			return string(list.Items[i].UID)
		}
	}
	t.Fatalf("there is no pod %s", name)
	return ""
}
