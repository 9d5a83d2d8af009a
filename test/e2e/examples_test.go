package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFollowExamples runs the examples that follow the stream: they tell changes, go
// on where a connection was lost, and begin anew with another instance.
func TestFollowExamples(t *testing.T) {
	for _, example := range []string{"follow.sh", "follow.py"} {
		t.Run(example, func(t *testing.T) {
			d := &daemon{dir: shortDir(t)}
			d.mkdir(t)
			d.put(t, "web", "i")
			d = start(t, d.dir)
			d.awaitFiles(t)
			bridge := d.bridge(t, "unix", filepath.Join(d.dir, "b"))
			lines := runExample(t, example, bridge.address)
			expect := func(want ...string) {
				t.Helper()
				for _, w := range want {
					select {
					case got := <-lines:
						if got != w {
							t.Fatalf("got %q, want %q", got, w)
						}
					case <-time.After(20 * time.Second):
						t.Fatalf("nothing for 20 s, want %q", w)
					}
				}
			}
			expect("ADD default/web-node1")
			d.put(t, "log", "i")
			expect("ADD default/log-node1")
			bridge.cut()
			d.put(t, "late", "i")
			expect("ADD default/late-node1") // and nothing that was told before
			if err := os.Remove(filepath.Join(d.dir, "manifests", "late.yaml")); err != nil {
				t.Fatal(err)
			}
			expect("REMOVE default/late-node1")
			_, _ = d.end(t, syscall.SIGKILL) // that it was killed is no error
			start(t, d.dir)
			expect("RESET: forget every pod", "ADD default/log-node1", "ADD default/web-node1")
		})
	}
}

// runExample runs an example until the test ends, and returns its lines.
func runExample(t *testing.T, name, socket string) <-chan string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "examples", name))
	cmd.Env = append(os.Environ(), "PODCONFIGD_SOCKET="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- strings.Join(strings.Fields(scanner.Text()), " ")
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what it has started
		<-done
		_ = cmd.Wait()
	})
	return lines
}
