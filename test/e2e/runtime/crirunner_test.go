package runtime

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// runner is a node with a runtime, podconfigd and crirunner.
type runner struct {
	*e2e.Daemon
	runtime *components.Runtime
	cmd     *exec.Cmd
}

func startRunner(t *testing.T, name string) *runner {
	t.Helper()
	testutil.Long(t)
	dir := testutil.ShortDir(t)
	r := &runner{runtime: components.StartRuntime(t, name)}
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	r.Daemon = e2e.Start(t, dir, r.options()...)
	e2e.SyncUp(t, r.Watch(t, client.Options{}))
	r.startRunner(t, testutil.MustProgram(t, ".", "./examples/crirunner"))
	return r
}

// options are those of podconfigd. No pod is due for a SYNC: what crirunner does, it does for a change.
func (r *runner) options() []string {
	return []string{"--container-runtime-endpoint", "unix://" + r.runtime.Socket, "--sync-frequency", "24h"}
}

func (r *runner) startRunner(t *testing.T, program string) {
	t.Helper()
	log := new(testutil.Buffer)
	cmd := exec.Command(program, "--socket", r.Socket, "--container-runtime-endpoint", "unix://"+r.runtime.Socket)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.cmd = cmd
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("crirunner said:\n%s", log)
		}
	})
}

// putPod puts a manifest into the directory, with these lines in the pod's spec.
func (r *runner) putPod(t *testing.T, name string, args, spec string) {
	t.Helper()
	r.putManifest(t, name, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  containers: [{name: c, image: %q, args: [%s]}]
%s`, name, components.Image, args, spec))
}

func (r *runner) putManifest(t *testing.T, name, manifest string) {
	t.Helper()
	temp := filepath.Join(r.Dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(r.Dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// containers returns the containers in the state, with their attempts.
func (r *runner) containers(t *testing.T, state runtimeapi.ContainerState) []string {
	t.Helper()
	resp, err := r.runtime.CRI.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range resp.GetContainers() {
		if c.GetState() == state {
			lines = append(lines, fmt.Sprintf("%s %s attempt %d", c.GetLabels()["io.kubernetes.pod.name"], c.GetId(), c.GetMetadata().GetAttempt()))
		}
	}
	slices.Sort(lines)
	return lines
}

func (r *runner) running(t *testing.T) []string {
	t.Helper()
	return r.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING)
}

func (r *runner) sandboxes(t *testing.T) int {
	t.Helper()
	resp, err := r.runtime.CRI.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.GetItems())
}

func TestCRIRunner(t *testing.T) {
	t.Parallel()
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			r := startRunner(t, name)
			r.putPod(t, "warm", "pause", "") // files are read from the disk for the first time
			testutil.Until(t, "the first pod runs", func() bool { return len(r.running(t)) == 1 })

			r.putPod(t, "web", "pause", "")
			testutil.Until(t, "the pod runs, without a SYNC", func() bool { return len(r.running(t)) == 2 })
			before := r.running(t)
			r.putPod(t, "web", `sleep, "1000s"`, "")
			testutil.Until(t, "the pod is replaced", func() bool {
				now := r.running(t)
				return len(now) == 2 && now[0] == before[0] && now[1] != before[1] && r.sandboxes(t) == 2
			})
			before = r.running(t)

			// Restarts of podconfigd or crirunner do not affect running containers.
			if _, err := r.End(t, syscall.SIGKILL); err == nil {
				t.Error("it was not killed")
			}
			r.Daemon = e2e.Start(t, r.Dir, r.options()...)
			s := r.Watch(t, client.Options{Ops: []v1alpha1.Op{v1alpha1.OpAll}})
			e2e.SyncUp(t, s)
			program := r.cmd.Path
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
			r.startRunner(t, program)
			r.putPod(t, "mark", "pause", "") // when it runs, all earlier pods have been checked
			testutil.Until(t, "a new pod runs", func() bool { return len(r.running(t)) == 3 })
			if now := r.running(t); len(now) != 3 || !slices.Equal(now[1:], before) {
				t.Errorf("after the restarts there runs %q, before %q", now, before)
			}

			if err := os.Remove(filepath.Join(r.Dir, "manifests", "web.yaml")); err != nil {
				t.Fatal(err)
			}
			testutil.Until(t, "the pod is gone", func() bool { return r.sandboxes(t) == 2 && len(r.running(t)) == 2 })
			// A pod that is removed while crirunner does not run is found as an orphan.
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
			if err := os.Remove(filepath.Join(r.Dir, "manifests", "mark.yaml")); err != nil {
				t.Fatal(err)
			}
			expectAll(t, s, "REMOVE mark-node1", "HOUSEKEEPING mark-node1")
			r.startRunner(t, program)
			testutil.Until(t, "the orphan is gone", func() bool { return r.sandboxes(t) == 1 })
		})
	}
}

// A mirror pod is a kubelet's copy of a static pod. It must not run, and must not replace
// the static pod with the same name.
func TestCRIRunnerLeavesMirrorPodsAlone(t *testing.T) {
	t.Parallel()
	r := startRunner(t, components.Containerd)
	r.putManifest(t, "mirror", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: mirror, annotations: {kubernetes.io/config.mirror: hash}}
spec:
  hostNetwork: true
  containers: [{name: c, image: %q}]
`, components.Image))
	testutil.Until(t, "the mirror pod is there", func() bool {
		list, err := r.Client.Pods(t.Context())
		return err == nil && len(list.Items) == 1
	})
	r.putPod(t, "web", "pause", "")
	testutil.Until(t, "the other pod runs", func() bool { return len(r.running(t)) > 0 })
	if n := r.sandboxes(t); n != 1 {
		t.Errorf("there are %d sandboxes", n)
	}
}

func TestCRIRunnerRestarts(t *testing.T) {
	t.Parallel()
	r := startRunner(t, components.Containerd)
	r.putPod(t, "always", "exit, \"0\"", "  restartPolicy: Always\n")
	r.putPod(t, "failure", "exit, \"3\"", "  restartPolicy: OnFailure\n")
	r.putPod(t, "done", "exit, \"0\"", "  restartPolicy: OnFailure\n")
	r.putPod(t, "never", "exit, \"3\"", "  restartPolicy: Never\n")
	attempts := func() map[string]int {
		all := make(map[string]int)
		for _, line := range r.containers(t, runtimeapi.ContainerState_CONTAINER_EXITED) {
			var name, id string
			var attempt int
			if _, err := fmt.Sscanf(line, "%s %s attempt %d", &name, &id, &attempt); err != nil {
				t.Fatal(err)
			}
			all[name] = attempt
		}
		return all
	}
	testutil.Until(t, "what exited is started again", func() bool {
		now := attempts()
		return now["always-node1"] >= 1 && now["failure-node1"] >= 1 && len(now) == 4
	})
	if now := attempts(); now["done-node1"] > 0 || now["never-node1"] > 0 {
		t.Errorf("what was done was started again: %v", now)
	}
	if out, _ := r.Run(t, "get", "pods"); len(out) == 0 {
		t.Error("get pods says nothing")
	} else {
		t.Log(out)
	}
}
