package runtime

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// next returns the next update: a PLEG as "OP type container exit-code", others as "OP
// pod pod".
func next(t *testing.T, s *e2e.Stream) string {
	t.Helper()
	select {
	case u := <-s.Updates:
		line := string(u.Op)
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
	case <-time.After(testutil.Patience):
		t.Fatalf("no update for %v", testutil.Patience)
		return ""
	}
}

// expectAll waits for these updates, in any order, and ignores others.
func expectAll(t *testing.T, s *e2e.Stream, want ...string) {
	t.Helper()
	deadline := time.Now().Add(testutil.Patience)
	var got []string
	for missing := want; len(missing) > 0; {
		line := next(t, s)
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
			t.Fatalf("not within %v: %q; there was %q", testutil.Patience, missing, got)
		}
	}
}

func TestRuntimeOnTheStream(t *testing.T) {
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
			all, pods := d.Watch(t, client.Options{Ops: []v1alpha1.Op{v1alpha1.OpAll}}), d.Watch(t, client.Options{})
			e2e.SyncUp(t, all)
			e2e.SyncUp(t, pods)
			d.Put(t, "web", components.Image)
			pods.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")

			sandbox := r.Sandbox(t, "web-node1", uid)
			expectAll(t, all, "PLEG ContainerStarted  web-node1", "SYNC web-node1")
			c := r.Create(t, sandbox, "web-node1", uid, "c", "sleep", "300ms", "3")
			r.StartContainer(t, c)
			expectAll(t, all, "PLEG ContainerDied c 3 web-node1", "SYNC web-node1")
			r.RemoveContainer(t, c)
			expectAll(t, all, "PLEG ContainerRemoved c web-node1")
			running := r.Create(t, sandbox, "web-node1", uid, "c", "pause")
			r.StartContainer(t, running)
			expectAll(t, all, "PLEG ContainerStarted c web-node1", "SYNC web-node1")
			other := r.Sandbox(t, "stray", "stray")
			expectAll(t, all, "PLEG ContainerStarted  stray", "HOUSEKEEPING stray")
			r.RemoveSandbox(t, other)
			expectAll(t, all, "PLEG ContainerDied  stray", "PLEG ContainerRemoved  stray", string(v1alpha1.OpHousekeeping))

			if out, _ := d.Run(t, "resync", "default/web-node1"); out != "pod/web-node1 resynced\n" {
				t.Errorf("resync: %s", out)
			}
			expectAll(t, all, "SYNC web-node1")
			// Not with the command: starting it can take as long as a resync is refused.
			testutil.Until(t, "a resync is refused", func() bool {
				err := d.Client.Resync(t.Context(), "default", "web-node1")
				return err != nil && strings.Contains(err.Error(), "too many requests")
			})
			matches(t, d, []string{"status"}, `(?m)^RUNTIME +MODE +PODS +CONTAINERS +RELISTED +FALLBACKS +STATE$`,
				`(?m)^unix://\S+ +(events|relisting) +1 +1 +\d+\w* +\d+ +ok$`,
				`(?m)^Relists: +\d+, \d+ failed; p50 `+duration+`, p99 `+duration+`$`,
				`(?m)^Emitted: +(ContainerChanged \d+, )?ContainerDied 2, ContainerRemoved 2, ContainerStarted \d+(, PodSync \d+)?\nReceived: +\d+ events from the runtime$`)
			testutil.Until(t, "the status of the pod is read", func() bool {
				out, _ := d.Run(t, "get", "pods")
				return strings.Contains(out, "Running")
			})
			// Whether the exit of the first container was read before its removal is chance.
			matches(t, d, []string{"get", "pods"}, `(?m)^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE +SOURCE$`,
				`(?m)^default +web-node1 +1/1 +Running +(0|1( \(\w+ ago\))?) +\d+\w* +file$`)
		})
	}
}

// duration matches the text of a Go duration. A list may take microseconds or minutes.
const duration = `(\d+h)?(\d+m)?[0-9.]+(ns|µs|ms|s)`

// matches compares a command's output with expressions.
func matches(t *testing.T, d *e2e.Daemon, args []string, expressions ...string) {
	t.Helper()
	out, code := d.Run(t, args...)
	for _, e := range expressions {
		if code != 0 || !regexp.MustCompile(e).MatchString(out) {
			t.Errorf("%v: exit code %d, no match of %s:\n%s", args, code, e, out)
		}
	}
}

// For any behavior of the runtime, the config is delivered, and the daemon is live. Only the status shows the failure.
func TestConfigGoesOnWithoutARuntime(t *testing.T) {
	t.Parallel()
	testutil.Long(t)
	r := components.StartRuntime(t, components.Containerd)
	r.Kill(t)
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	d := e2e.Start(t, dir, "--container-runtime-endpoint", r.Socket, "--pleg-relist-threshold", "2s", "--pleg-relist-period", "100ms")
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	pods := 0
	configGoesOn := func() {
		t.Helper()
		pods++
		name := fmt.Sprint("pod", pods)
		d.Put(t, name, "image")
		expectAll(t, s, "ADD "+name+"-node1") // beside changes of the status of others
	}
	healthy := func(want bool, why string) {
		t.Helper()
		var state string
		defer func() {
			if t.Failed() {
				t.Logf("the status has: %s", state)
			}
		}()
		testutil.Until(t, fmt.Sprintf("the runtime is healthy: %t, %s", want, why), func() bool {
			status, err := d.Client.Status(t.Context())
			if err != nil {
				return false
			}
			state = fmt.Sprintf("%+v", status.Runtime)
			return status.Runtime.Healthy == want && strings.Contains(status.Runtime.LastError, why)
		})
		if err := d.Client.Ping(t.Context()); err != nil { // a restart would mend nothing
			t.Error(err)
		}
		configGoesOn()
	}
	sick := func(why string) { t.Helper(); healthy(false, why) }
	well := func() { t.Helper(); healthy(true, "") }
	sick("connect: connection refused")
	r.Start(t)
	well()
	r.Signal(t, syscall.SIGSTOP)
	sick("")
	r.Signal(t, syscall.SIGCONT)
	well()
	r.Kill(t)
	sick("connect: connection refused")
	r.Start(t)
	well()
	if took, err := d.End(t, syscall.SIGTERM); err != nil || took > 30*time.Second {
		t.Errorf("it ended after %v with %v", took, err)
	}
}

// A runtime that hangs does not delay the end of the daemon, even during a list with a
// timeout of half a minute.
func TestSIGTERMWhileTheRuntimeHangs(t *testing.T) {
	t.Parallel()
	testutil.Long(t)
	r := components.StartRuntime(t, components.DebianContainerd)
	proxy := r.Proxy(t)
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	d := e2e.Start(t, dir, "--container-runtime-endpoint", proxy.Socket, "--pleg-relist-period", "10ms")
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	r.Signal(t, syscall.SIGSTOP)
	lists := func() int { return proxy.Calls("ListPodSandbox") + proxy.Calls("ListContainers") }
	testutil.Until(t, "a list hangs", func() bool {
		before := lists()
		<-time.After(time.Second)
		return before > 0 && lists() == before
	})
	if took, err := d.End(t, syscall.SIGTERM); err != nil || took > 30*time.Second {
		t.Errorf("it ended after %v with %v", took, err)
	}
}

// uid returns the UID of a current pod.
func uid(t *testing.T, d *e2e.Daemon, name string) string {
	t.Helper()
	list, err := d.Client.Pods(t.Context())
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
