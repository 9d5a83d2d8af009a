package clients

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestFollowExamples runs the examples that read the stream. They print changes, resume
// after a lost connection, and start again with another instance.
func TestFollowExamples(t *testing.T) {
	t.Parallel()
	for _, example := range []string{"follow.sh", "follow.py"} {
		t.Run(example, func(t *testing.T) {
			d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
			d.Mkdir(t)
			d.Put(t, "web", "i")
			d = e2e.Start(t, d.Dir)
			d.AwaitFiles(t)
			bridge := d.Bridge(t, "unix", filepath.Join(d.Dir, "b"))
			lines := runExample(t, example, bridge.Address)
			expect := func(want ...string) {
				t.Helper()
				for _, w := range want {
					select {
					case got := <-lines:
						if got != w {
							t.Fatalf("got %q, want %q", got, w)
						}
					case <-time.After(testutil.Patience):
						t.Fatalf("nothing for %v, want %q", testutil.Patience, w)
					}
				}
			}
			expect("ADD default/web-node1")
			d.Put(t, "log", "i")
			expect("ADD default/log-node1")
			bridge.Cut()
			d.Put(t, "late", "i")
			expect("ADD default/late-node1") // without repeating earlier lines
			if err := os.Remove(filepath.Join(d.Dir, "manifests", "late.yaml")); err != nil {
				t.Fatal(err)
			}
			expect("REMOVE default/late-node1")
			_, _ = d.End(t, syscall.SIGKILL) // it was killed
			e2e.Start(t, d.Dir)
			expect("RESET: forget every pod", "ADD default/log-node1", "ADD default/web-node1")
		})
	}
}

// TestFollowInASnapshotMode checks that follow.py has the pods of the last SET, and no others.
func TestFollowInASnapshotMode(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "log", "i")
	d.Put(t, "web", "i")
	d = e2e.Start(t, d.Dir)
	d.AwaitFiles(t)
	bridge := d.Bridge(t, "unix", filepath.Join(d.Dir, "b"))
	await := followExample(t, bridge.Address, "mode=snapshot")
	await("default/web-node1")
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "log.yaml")); err != nil {
		t.Fatal(err)
	}
	await("default/web-node1")
	bridge.Cut()
	await("connection lost, 1 pods known")
}

// TestFollowTwoSources checks that follow.py has a pod until both of its sources have removed it,
// also if its requests select fields.
func TestFollowTwoSources(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	other := filepath.Join(d.Dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	const manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: same}\nspec: {containers: [{name: c, image: i}]}\n"
	d.PutFile(t, "web", manifest)
	if err := os.WriteFile(filepath.Join(other, "web.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	d = e2e.Start(t, d.Dir, "--pod-manifest-path", "other="+other)
	for _, query := range []string{"", "fields=spec"} {
		bridge := d.Bridge(t, "unix", filepath.Join(d.Dir, "b"+query))
		await := followExample(t, bridge.Address, query)
		await("ADD\tdefault/web-node1")
		await("ADD\tdefault/web-node1")
		if err := os.Remove(filepath.Join(other, "web.yaml")); err != nil {
			t.Fatal(err)
		}
		await("REMOVE\tdefault/web-node1")
		bridge.Cut()
		await("connection lost, 1 pods known")
		if err := os.WriteFile(filepath.Join(other, "web.yaml"), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		await("ADD\tdefault/web-node1")
	}
}

// followExample runs follow.py, and returns a function that waits for a line with a text.
func followExample(t *testing.T, socket, query string) (await func(want string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "examples", "follow.py"), query)
	cmd.Env = append(os.Environ(), "PODCONFIGD_SOCKET="+socket)
	output, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_ = output.SetReadDeadline(time.Now().Add(testutil.Patience))
	lines := bufio.NewScanner(output)
	return func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no line with %q: %v", want, lines.Err())
	}
}

// TestFollowExamplesEnd checks how the examples end: with all errors of the daemon on a
// query, and silently if their output is closed.
func TestFollowExamplesEnd(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "i")
	d = e2e.Start(t, d.Dir)
	d.AwaitFiles(t)
	for _, example := range []string{"follow.sh", "follow.py"} {
		t.Run(example, func(t *testing.T) {
			command := func(args ...string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "examples", example), args...)
				cmd.Env = append(os.Environ(), "PODCONFIGD_SOCKET="+d.Socket)
				return cmd
			}
			out, err := command("mode=full&since=x").CombinedOutput()
			if err == nil || !strings.Contains(string(out), `parameter "mode"`) || !strings.Contains(string(out), `parameter "since"`) {
				t.Errorf("of a query with two errors: %v: %s", err, out)
			}
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			unread, stdout, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = unread.Close() // like head
			defer stdout.Close()
			cmd := command()
			cmd.Stdout, cmd.Stderr = stdout, stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			giveUp := time.AfterFunc(testutil.Patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
			err = cmd.Wait()
			giveUp.Stop()
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // also its children
			said, readErr := os.ReadFile(stderr.Name())
			if err == nil || err.Error() != "signal: broken pipe" || len(said) > 0 || readErr != nil {
				t.Errorf("where nobody reads: %v, %v: %s", err, readErr, said)
			}
		})
	}
}

// TestFollowExamplesWaitForAPlace checks that an example retries after 429 when it
// reconnects.
func TestFollowExamplesWaitForAPlace(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	for _, example := range []string{"follow.sh", "follow.py"} {
		t.Run(example, func(t *testing.T) {
			socket := filepath.Join(testutil.ShortDir(t), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int32
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch asked.Add(1) {
				case 1:
					_, _ = io.WriteString(w, `{"instance":"i","revision":5,"op":"BOOKMARK","initialSyncComplete":true}`+"\n")
				case 2:
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = io.WriteString(w, `{"kind":"Status","message":"too many subscribers","code":429}`)
				default:
					_, _ = io.WriteString(w, `{"instance":"i","revision":6,"op":"ADD","source":"file","pods":[{"metadata":{"namespace":"since","name":"`+
						r.URL.Query().Get("since")+`","uid":"u"}}]}`+"\n")
				}
			})}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			defer func() { _ = s.Close(); <-served }()
			select {
			case got := <-runExample(t, example, socket):
				if got != "ADD since/5" {
					t.Errorf("got %q", got)
				}
			case <-time.After(testutil.Patience):
				t.Errorf("nothing for %v", testutil.Patience)
			}
		})
	}
}

// TestFollowExamplesSaveRevisions checks that an example resumes after the last line with
// a revision, wherever the connection breaks, but not over a reset.
func TestFollowExamplesSaveRevisions(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	pod := func(op, name, more string) string {
		return fmt.Sprintf(`{"instance":"i","op":%q,"source":"file",%s"pods":[{"metadata":{"namespace":"ns","name":%q,"uid":%[3]q}}]}`+"\n", op, more, name)
	}
	bookmark := func(more string) string { return `{"instance":"i","op":"BOOKMARK",` + more + "}\n" }
	replies := []struct{ since, body string }{
		{"", pod("ADD", "a", "")}, // breaks before the first state is complete
		{"", pod("ADD", "b", "") + bookmark(`"revision":5,"initialSyncComplete":true`) + pod("ADD", "c", `"continues":true,`)},
		{"5", pod("ADD", "c", `"continues":true,`) + pod("ADD", "d", `"revision":7,`)},
		{"7", bookmark(`"reset":true,"message":"m"`) + pod("ADD", "e", "")},
		{"", pod("ADD", "f", "") + bookmark(`"revision":9,"initialSyncComplete":true`)},
		{"9", pod("ADD", "g", `"revision":10,`)},
	}
	for _, example := range []string{"follow.sh", "follow.py"} {
		t.Run(example, func(t *testing.T) {
			socket := filepath.Join(testutil.ShortDir(t), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int32
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(asked.Add(1)) - 1
				if n >= len(replies) {
					<-r.Context().Done()
					return
				}
				if since := r.URL.Query().Get("since"); since != replies[n].since {
					t.Errorf("request %d resumes from %q, want %q", n, since, replies[n].since)
				}
				_, _ = io.WriteString(w, replies[n].body)
			})}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			defer func() { _ = s.Close(); <-served }()
			lines := runExample(t, example, socket)
			for {
				select {
				case line := <-lines:
					if line == "ADD ns/g" {
						return
					}
				case <-time.After(testutil.Patience):
					t.Fatalf("nothing for %v", testutil.Patience)
				}
			}
		})
	}
}

// A subscriber that falls behind gets a reset also between the lines of a SET. The lines before it are void.
func TestFollowForgetsABegunSet(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", `
import follow
pods = follow.Pods("mode=snapshot")
line = lambda name, **more: {"instance": "i", "op": "SET", "pods": [{"metadata": {"namespace": "ns", "name": name, "uid": name}}], **more}
for update in line("a", **{"continues": True}), {"instance": "i", "op": "BOOKMARK", "reset": True}, line("b", revision=5):
    pods.take(update)
print(*[p["metadata"]["name"] for p in pods.pods.values()])
`)
	cmd.Dir = filepath.Join("..", "..", "..", "examples")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nb\n") {
		t.Errorf("%v, %s", err, out)
	}
}

// runExample runs an example until the test ends, and returns its lines.
func runExample(t *testing.T, name, socket string) <-chan string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "examples", name))
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // also its children
		<-done
		_ = cmd.Wait()
	})
	return lines
}
