package e2e

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
)

// bridge is another way to the daemon's socket, which can be cut.
type bridge struct {
	address string
	cut     func()
}

// bridge makes the daemon's socket a port on loopback, for clients that can't dial a
// unix socket, or another unix socket.
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

// pass carries bytes both ways until either end closes.
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

// TestKubectl has a real kubectl read the daemon.
func TestKubectl(t *testing.T) {
	d := &daemon{dir: shortDir(t)}
	d.mkdir(t)
	d.put(t, "web", "nginx:1.27")
	d.put(t, "log", "fluent-bit")
	d = start(t, d.dir)
	server := "http://" + d.bridge(t, "tcp", "127.0.0.1:0").address
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), components.Kubectl(t), append([]string{"--server", server}, args...)...)
		cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=/dev/null"}
		return cmd
	}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := command(args...).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	has := func(out string, lines ...string) {
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
	has(kubectl("get", "pods", "-A", "-o", "wide"),
		"NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
		"default web-node1 0/1 Pending 0 <unknown> <none> node1 <none> <none>",
		"default log-node1 0/1 Pending 0 <unknown> <none> node1 <none> <none>")
	has(kubectl("get", "pod", "web-node1", "-o", "yaml"),
		"kind: Pod", "name: web-node1", "nodeName: node1", "- image: nginx:1.27", "phase: Pending")
	has(kubectl("describe", "pod", "web-node1"), "Name: web-node1", "Image: nginx:1.27", "Status: Pending", "Node: node1/")
	has(kubectl("get", "po", "--field-selector", "metadata.name=log-node1", "-o", "name"), "pod/log-node1")
	has(kubectl("get", "pods", "--chunk-size=1", "-o", "name"), "pod/log-node1", "pod/web-node1")
	has(kubectl("get", "pods", "-l", "app=none"), "No resources found in default namespace.")
	has(kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/web-node1", "--timeout=10s"), "pod/web-node1 condition met")
	for args, want := range map[string]string{
		"get pod nope":         `Error from server (NotFound): pods "nope" not found`,
		"delete pod web-node1": "Error from server (MethodNotAllowed): DELETE is not supported: podconfigd is read-only",
		"run x --image=i":      "POST is not supported: podconfigd is read-only",
	} {
		out, err := command(strings.Fields(args)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("kubectl %s: %v, %s; want %s", args, err, out, want)
		}
	}

	watch := command("get", "pods", "-A", "-w", "--output-watch-events", "-o", "wide")
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Process.Kill(); _ = watch.Wait() })
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- strings.Join(strings.Fields(scanner.Text())[:3], " ")
		}
	}()
	expect := func(want string) {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if line == want {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("kubectl get -w does not say %q", want)
			}
		}
	}
	expect("ADDED default web-node1")
	d.put(t, "late", "i")
	expect("ADDED default late-node1")
	d.put(t, "late", "j") // is another pod of the name
	expect("DELETED default late-node1")
	expect("ADDED default late-node1")
	_ = watch.Process.Kill()
	for range lines {
		continue
	}
}
