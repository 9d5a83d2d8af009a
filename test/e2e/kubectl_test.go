package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// bridge is another address of the daemon's socket, whose connections can be cut.
type bridge struct {
	address string
	cut     func()
}

// bridge makes the daemon's socket available on a loopback port, for clients without unix
// sockets, or on another unix socket.
func (d *daemon) bridge(t *testing.T, network, address string) *bridge {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{address: l.Addr().String()}
	var running sync.WaitGroup
	var mu sync.Mutex
	var cancels []context.CancelFunc
	b.cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, cancel := range cancels {
			cancel()
		}
		cancels = nil
	}
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			mu.Lock()
			cancels = append(cancels, cancel)
			mu.Unlock()
			running.Go(func() { d.pass(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.cut()
		running.Wait()
	})
	return b
}

// pass copies bytes in both directions until either end closes.
func (d *daemon) pass(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	socket, err := new(net.Dialer).DialContext(ctx, "unix", d.socket)
	if err != nil {
		return
	}
	defer socket.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = socket.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, socket}, {socket, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // ends with either end
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
}

// kubectl is a real kubectl that talks to a server.
type kubectl struct{ server string }

// kubectl returns a kubectl for the daemon.
func (d *daemon) kubectl(t *testing.T) kubectl {
	t.Helper()
	testutil.Eventually(t, func() error { // kubectl does not try again
		conn, err := net.Dial("unix", d.socket)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return kubectl{"http://" + d.bridge(t, "tcp", "127.0.0.1:0").address}
}

func (k kubectl) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), components.Kubectl(t), append([]string{"--server", k.server}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=/dev/null"}
	return cmd
}

// run returns the output of a command that must succeed.
func (k kubectl) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k.command(t, args...).CombinedOutput()
	if err != nil {
		t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails returns the output of a command that must fail.
func (k kubectl) fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k.command(t, args...).CombinedOutput()
	if err == nil {
		t.Errorf("kubectl %s does not fail:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// hasLines looks for lines in an output, ignoring the amount of space.
func hasLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		found := false
		for l := range strings.Lines(out) {
			found = found || strings.Join(strings.Fields(l), " ") == line
		}
		if !found {
			t.Errorf("there is no line %q in\n%s", line, out)
		}
	}
}

// TestKubectl runs a real kubectl against the daemon.
func TestKubectl(t *testing.T) {
	t.Parallel()
	d := &daemon{dir: testutil.ShortDir(t)}
	d.mkdir(t)
	d.put(t, "web", "nginx:1.27")
	d.put(t, "log", "fluent-bit")
	d = start(t, d.dir)
	kubectl := d.kubectl(t)
	hasLines(t, kubectl.run(t, "get", "pods", "-A", "-o", "wide"),
		"NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES")
	hasLines(t, kubectl.run(t, "get", "pod", "web-node1", "-o", "yaml"),
		"kind: Pod", "name: web-node1", "nodeName: node1", "- image: nginx:1.27", "phase: Pending")
	hasLines(t, kubectl.run(t, "describe", "pod", "web-node1"), "Name: web-node1", "Image: nginx:1.27", "Status: Pending", "Node: node1/")
	hasLines(t, kubectl.run(t, "get", "po", "--field-selector", "metadata.name=log-node1", "-o", "name"), "pod/log-node1")
	hasLines(t, kubectl.run(t, "get", "pods", "--chunk-size=1", "-o", "name"), "pod/log-node1", "pod/web-node1")
	hasLines(t, kubectl.run(t, "get", "pods", "-l", "app=none"), "No resources found in default namespace.")
	hasLines(t, kubectl.run(t, "wait", "--for=jsonpath={.status.phase}=Pending", "pod/web-node1", "--timeout=10s"), "pod/web-node1 condition met")
	for args, want := range map[string]string{
		"get pod nope":         `Error from server (NotFound): pods "nope" not found`,
		"delete pod web-node1": "Error from server (MethodNotAllowed): DELETE is not supported: podconfigd is read-only",
		"run x --image=i":      "POST is not supported: podconfigd is read-only",
	} {
		if out := kubectl.fails(t, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("kubectl %s: %s; want %s", args, out, want)
		}
	}

	expect, end := kubectl.watch(t, 3, "get", "pods", "-A", "-w", "--output-watch-events", "-o", "wide")
	expect("ADDED default web-node1")
	d.put(t, "late", "i")
	expect("ADDED default late-node1")
	d.put(t, "late", "j") // another pod with the name
	expect("DELETED default late-node1")
	expect("ADDED default late-node1")
	end()
}

// watch runs a command that does not end. expect waits for a line that begins with those
// words, of the first columns.
func (k kubectl) watch(t *testing.T, columns int, args ...string) (expect func(want string), end func()) {
	t.Helper()
	watch := k.command(t, args...)
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			words := strings.Fields(scanner.Text())
			lines <- strings.Join(words[:min(columns, len(words))], " ")
		}
	}()
	end = sync.OnceFunc(func() {
		_ = watch.Process.Kill()
		for range lines {
			continue
		}
		_ = watch.Wait() // it was killed
	})
	t.Cleanup(end)
	return func(want string) {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if line == want {
					return
				}
			case <-time.After(testutil.Patience):
				t.Fatalf("kubectl %s does not say %q", strings.Join(args, " "), want)
			}
		}
	}, end
}

// The creationTimestamp of a static pod is the time at which it was first seen. kubectl
// shows it and sorts by it.
func TestKubectlAges(t *testing.T) {
	t.Parallel()
	d := &daemon{dir: testutil.ShortDir(t)}
	d.mkdir(t)
	put := func(name, image string) {
		t.Helper()
		d.putFile(t, name, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-of-%[1]s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image))
	}
	put("z", "i")
	d = start(t, d.dir)
	kubectl := d.kubectl(t)
	created := func(name string) string {
		return kubectl.run(t, "get", "pod", name+"-node1", "-o", "jsonpath={.metadata.creationTimestamp}")
	}
	first := created("z")
	since, err := time.Parse(time.RFC3339, first)
	if err != nil || time.Since(since) > testutil.Patience {
		t.Fatalf("z was created at %q: %v", first, err)
	}
	<-time.After(time.Until(since.Add(1100 * time.Millisecond))) // creationTimestamp is in seconds
	put("a", "i")
	put("z", "j")
	testutil.Eventually(t, func() error {
		if out := kubectl.run(t, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}"); out != "i j" {
			return fmt.Errorf("images %q", out)
		}
		return nil
	})
	if after := created("z"); after != first {
		t.Errorf("an update of the pod moves its creation from %s to %s", first, after)
	}
	var names []string
	table := kubectl.run(t, "get", "pods", "--sort-by=.metadata.creationTimestamp")
	for line := range strings.Lines(table) {
		row := strings.Fields(line)
		names = append(names, row[0])
		if age := row[len(row)-1]; row[0] != "NAME" && !strings.HasSuffix(age, "s") {
			t.Errorf("%s is of age %q", row[0], age)
		}
	}
	if !slices.Equal(names, []string{"NAME", "z-node1", "a-node1"}) {
		t.Errorf("sorted by creation:\n%s", table)
	}
	if out := kubectl.run(t, "get", "pods", "-o", "custom-columns=C:.metadata.creationTimestamp", "--no-headers"); strings.Contains(out, "<none>") {
		t.Errorf("custom columns:\n%s", out)
	}
	pods, err := d.client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if !pods.Items[i].CreationTimestamp.IsZero() {
			t.Errorf("/pods has a creationTimestamp: %v", pods.Items[i].CreationTimestamp)
		}
	}
}
