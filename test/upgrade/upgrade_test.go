package upgrade

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is what survives the daemon: manifests, a socket path and a state directory.
type machine struct{ dir, manifests, socket string }

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := testutil.ShortDir(t)
	m := &machine{dir, filepath.Join(dir, "manifests"), filepath.Join(dir, "s")}
	if err := os.Mkdir(m.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) put(t *testing.T, name string) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]}\n", name)
	temp := filepath.Join(m.manifests, "."+name)
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(m.manifests, name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// running is a process.
type running struct {
	*exec.Cmd
	log *testutil.Buffer
}

func run(t *testing.T, program string, args ...string) *running {
	t.Helper()
	r := &running{exec.CommandContext(t.Context(), program, args...), new(testutil.Buffer)}
	r.Stdout, r.Stderr = r.log, r.log
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.ProcessState == nil {
			r.end(t, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(append([]string{program}, args...), " "), r.log)
		}
	})
	return r
}

func (r *running) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = r.Process.Signal(signal)
	_ = r.Wait()
}

// says waits for a line.
func (r *running) says(t *testing.T, line string) {
	t.Helper()
	testutil.Until(t, line, func() bool { return strings.Contains("\n"+r.log.String(), "\n"+line+"\n") })
}

// daemon runs the daemon of a version, and waits until it has all pods.
func (m *machine) daemon(t *testing.T, v version, args ...string) *running {
	t.Helper()
	d := run(t, v.podconfigd, append([]string{
		"--pod-manifest-path", m.manifests, "--socket", m.socket, "--hostname-override", "node1",
		"--state-dir", filepath.Join(m.dir, "state"),
	}, args...)...)
	testutil.Eventually(t, func() error {
		status, err := client.New(m.socket).Status(t.Context())
		if err == nil && !status.Ready {
			err = fmt.Errorf("it is not ready: %+v", status)
		}
		return err
	})
	return d
}

// The clients of each version get the same answers from the daemon of the other.
func TestClientsOfTheOtherVersion(t *testing.T) {
	now, before := versions(t)
	const want = `status: node1 ready=true pods=1 sources=1
pods: web-node1
lookup: web-node1 of file
history: web-node1
stream: ADD web-node1
grpc status: node1 ready=true sources=1
grpc list: web-node1
grpc watch: OPERATION_ADD
pods api: web-node1
`
	for _, pair := range []struct{ daemon, client version }{{before, now}, {now, before}, {now, now}, {before, before}} {
		t.Run(pair.client.name+" client with the "+pair.daemon.name+" daemon", func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.put(t, "web")
			m.daemon(t, pair.daemon)
			if got := m.ask(t, pair.client.probe, m.socket); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
			for args, want := range map[string]string{
				"get pods": "web-node1", "get pods -o name": "pod/web-node1", "get pods web-node1 -o yaml": "name: web-node1",
				"status": "web.yaml", "status -o json": `"nodeName": "node1"`, "history": "web-node1", "resync default/web-node1": "web-node1",
			} {
				t.Run(args, func(t *testing.T) {
					if got := m.ask(t, pair.client.podconfigctl, strings.Fields(args)...); !strings.Contains(got, want) {
						t.Errorf("got\n%s, want %s", got, want)
					}
				})
			}
			watch := run(t, pair.client.podconfigctl, "watch", "-o", "name", "--socket", m.socket)
			testutil.Until(t, "the pod", func() bool { return strings.Contains(watch.log.String(), "web-node1") })
		})
	}
}

// ask runs a command to its end, and returns its output.
func (m *machine) ask(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), client.SocketEnv+"="+m.socket)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, &out, &complaints)
	}
	return out.String()
}

// Subscribers of both versions resume across an upgrade, a downgrade and an upgrade again, after a clean
// stop and after a kill. They miss nothing and get nothing twice.
func TestStateDirectoryOfTheOtherVersion(t *testing.T) {
	now, before := versions(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.put(t, "first")
			d := m.daemon(t, before)
			subscribers := []*running{run(t, now.probe, m.socket, "follow"), run(t, before.probe, m.socket, "follow")}
			for _, s := range subscribers {
				s.says(t, "ADD first-node1")
			}
			instance := m.instance(t)
			for i, next := range []version{now, before, now} {
				d.end(t, signal)
				name := fmt.Sprintf("pod-%d", i)
				m.put(t, name)
				d = m.daemon(t, next)
				for _, s := range subscribers {
					s.says(t, "ADD "+name+"-node1")
				}
				if got := m.instance(t); got != instance {
					t.Errorf("the %s version has another instance", next.name)
				}
			}
			for _, s := range subscribers {
				if log := s.log.String(); strings.Contains(log, "reset") || strings.Count(log, "ADD") != 4 {
					t.Errorf("a subscriber got\n%s", log)
				}
			}
		})
	}
}

func (m *machine) instance(t *testing.T) string {
	t.Helper()
	status, err := client.New(m.socket).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status.Instance
}

// Both versions start with a state directory of the oldest format, and have what happened.
func TestStateDirectoryOfTheOldestFormat(t *testing.T) {
	now, before := versions(t)
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []version{now, before} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			state := filepath.Join(m.dir, "state")
			if err := os.CopyFS(state, os.DirFS(filepath.Join(root, "pkg", "journal", "store", "testdata", "format-1"))); err != nil {
				t.Fatal(err)
			}
			m.put(t, "late")
			m.daemon(t, v, "--hostname-override", "node", "--state-max-age", "87600h")
			if got := m.ask(t, v.podconfigctl, "history"); !strings.Contains(got, "etcd") || !strings.Contains(got, "late-node") {
				t.Errorf("the history is\n%s", got)
			}
			aside, err := filepath.Glob(filepath.Join(state, "*[!g]"))
			for _, path := range aside {
				if strings.Contains(path, "journal") && !strings.HasSuffix(path, ".log") {
					t.Errorf("%s was set aside (%v)", path, err)
				}
			}
		})
	}
}
