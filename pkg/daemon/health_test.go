package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/fakecri"
)

// healthRow is a row of the table of faults in docs/how-to/operate.md.
type healthRow struct{ fault, livez, readyz, problem, alert string }

// healthTable returns the rows, without their markup.
func healthTable(t *testing.T, root string) (rows []healthRow) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| fault | `/livez` | `/readyz` | problem | alert |\n|---|---|---|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(line, "`", ""), "|")
		if len(cells) != 7 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, healthRow{cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	if !found || len(rows) == 0 {
		t.Fatal("operate.md has no table of faults")
	}
	return rows
}

// fault configures a daemon before it runs, and then makes a fault. Both are optional.
type fault struct {
	configure, make func(r *reloadable)
}

// withRuntime is a fault of the runtime, with a short threshold.
func withRuntime(runtime func(c *fakecri.Runtime)) fault {
	var c *fakecri.Runtime
	return fault{
		func(r *reloadable) {
			c = fakecri.Start(r.t)
			r.config.ContainerRuntimeEndpoint = c.Socket
			r.config.PLEGRelistPeriod, r.config.PLEGRelistThreshold = every(100*time.Millisecond), every(time.Second)
		},
		func(r *reloadable) {
			testutil.Until(r.t, "a list", func() bool { return c.Calls("ListContainers") > 0 })
			runtime(c)
		},
	}
}

// stoppedLoop is the channel that stops the loop of the daemon.
func stoppedLoop() fault {
	stop := make(chan struct{})
	return fault{
		func(r *reloadable) { r.prepare = func() { r.StopLoop(stop, 5*time.Second) } },
		func(*reloadable) { close(stop) },
	}
}

// faults are the faults of the table.
func faults() map[string]fault {
	must := func(r *reloadable, err error) {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	replaceByFile := func(path string) error {
		return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
	}
	return map[string]fault{
		"none":                               {},
		"the sync loop stops for 30 seconds": stoppedLoop(),
		"a source has not delivered its first set": {func(r *reloadable) {
			r.config.StaticPodURL, r.unready = "http://127.0.0.1:1/", true
		}, nil},
		"a source can't be read, after its first set": {nil, func(r *reloadable) {
			must(r, os.RemoveAll(r.config.StaticPodPath))
		}},
		"a manifest is rejected": {nil, func(r *reloadable) {
			must(r, os.WriteFile(filepath.Join(r.config.StaticPodPath, "bad.yaml"), []byte("kind: [\n"), 0o600))
		}},
		"updates can't be stored in the state directory": {func(r *reloadable) {
			r.config.StateDir = filepath.Join(r.dir, "state")
		}, func(r *reloadable) {
			must(r, replaceByFile(r.config.StateDir))
			r.write("m/another.yaml", "1")
		}},
		"the container runtime does not answer": withRuntime(func(c *fakecri.Runtime) { c.Hang("*") }),
		"the endpoint is not that of a runtime": {func(r *reloadable) {
			r.config.ContainerRuntimeEndpoint, r.config.PLEGRelistThreshold = *r.config.Socket, every(2*time.Second)
		}, nil},
		"a list of the runtime is over 16 MiB": withRuntime(tooLarge),
		"the runtime lists a pod, and does not describe it": withRuntime(func(c *fakecri.Runtime) {
			c.Hang("ContainerStatus")
			exited := fakecri.Running("c", "s", "c")
			exited.State = runtimeapi.ContainerState_CONTAINER_EXITED
			c.Change(func(s *fakecri.State) {
				s.Sandboxes, s.Containers = []*runtimeapi.PodSandboxStatus{fakecri.Sandbox("s", "u", "p")}, []*fakecri.Container{exited}
			})
		}),
		"the Pods API of the kubelet gives no status": {func(r *reloadable) {
			r.config.KubeletPodsAPI = new(filepath.Join(testutil.ShortDir(r.t), "k"))
		}, nil},
		"the configuration is invalid at a reload": {nil, func(r *reloadable) {
			invalid := r.config
			invalid.SyncFrequency = every(time.Millisecond)
			_, err := r.Reload(r.t.Context(), &invalid)
			if err == nil {
				r.t.Error("the reload succeeded")
			}
			r.Refused(err) // as the command does
		}},
	}
}

// tooLarge gives the runtime a list that is larger than a client of CRI takes.
func tooLarge(c *fakecri.Runtime) {
	large := fakecri.Running("c", "s", "c")
	large.Annotations = map[string]string{"a": strings.Repeat("x", 17<<20)}
	c.Change(func(s *fakecri.State) {
		s.Sandboxes = []*runtimeapi.PodSandboxStatus{fakecri.Sandbox("s", "u", "p")}
		s.Containers = []*fakecri.Container{large}
	})
}

// Each fault of the table in operate.md has the answers that the table says: only what a restart can mend makes /livez fail.
func TestHealthOfFaults(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	faults := faults()
	for _, row := range healthTable(t, root) {
		fault, known := faults[row.fault]
		if !known {
			t.Errorf("the table has %q, the test has not", row.fault)
			continue
		}
		delete(faults, row.fault)
		if row.alert != "" && !strings.Contains(string(rules), "alert: "+row.alert+"\n") {
			t.Errorf("%s: there is no alert %q", row.fault, row.alert)
		}
		t.Run(row.fault, func(t *testing.T) {
			t.Parallel()
			r := configured(t)
			if fault.configure != nil {
				fault.configure(r)
			}
			r.run()
			if fault.make != nil {
				fault.make(r)
			}
			testutil.Eventually(t, func() error { return r.health(t, row) })
		})
	}
	for name := range faults {
		t.Errorf("the test has %q, the table has not", name)
	}
}

// health returns how the answers of the daemon differ from the row.
func (r *reloadable) health(t *testing.T, row healthRow) error {
	t.Helper()
	c := client.New(*r.config.Socket)
	for path, want := range map[string]string{"/livez": row.livez, "/healthz": row.livez, "/readyz": row.readyz} {
		resp, err := (&http.Client{Transport: c}).Get("http://localhost" + path)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if got := fmt.Sprint(resp.StatusCode); got != want {
			return fmt.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	status, err := c.Status(t.Context())
	if err != nil {
		return err
	}
	problem, since := strings.CutSuffix(row.problem, "…")
	if row.problem == "" && len(status.Problems) == 0 || slices.ContainsFunc(status.Problems, func(p string) bool {
		return p == problem || since && strings.HasPrefix(p, problem)
	}) {
		return nil
	}
	return fmt.Errorf("the problems are %q, want %q", status.Problems, row.problem)
}
