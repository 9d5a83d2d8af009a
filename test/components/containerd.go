package components

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Containerds are the containerds of the tests: one with container events over CRI, and Debian's, without them. If
// PODCONFIGD_TEST_CONTAINERD is set, they are those that it names, separated by spaces.
var Containerds = containerds()

func containerds() []string {
	if names := strings.Fields(os.Getenv("PODCONFIGD_TEST_CONTAINERD")); len(names) > 0 {
		return names
	}
	return []string{Containerd, DebianContainerd}
}

// EachContainerd are the versions that a test tries: all, or the latest in a short run.
func EachContainerd() []string {
	if testing.Short() {
		return Containerds[:1]
	}
	return Containerds
}

// The names of the containerds. 1.7 gives each container event to only one client. Building it takes minutes.
const (
	Containerd       = "containerd"
	Containerd17     = "containerd-1.7"
	DebianContainerd = "debian-containerd"
)

// Runtime is a containerd of a test. It has the image [Image], and the images of Load.
type Runtime struct {
	*Process
	// Socket is its CRI socket.
	Socket string
	CRI    runtimeapi.RuntimeServiceClient

	dir    string
	images runtimeapi.ImageServiceClient
	ctr    []string // the command that imports an image
}

// StartRuntime runs one of the Containerds until the test ends, and then removes its
// containers. It skips the test if the user lacks the rights.
func StartRuntime(tb testing.TB, name string) *Runtime {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("running containers takes root")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		tb.Fatalf("%v: hack/test-deps.sh installs it", err)
	}
	dir, err := os.MkdirTemp("", "runtime")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Runtime{dir: dir, Socket: filepath.Join(dir, "s")}
	tb.Cleanup(func() { r.sweep(tb) })
	config := configs[name]
	if config == "" {
		tb.Fatalf("there is no containerd %q: there is %s, %s and %s", name, Containerd, Containerd17, DebianContainerd)
	}
	config = fmt.Sprintf(config, dir, Image, runc)
	r.Process = newProcess(tb, dir, name, "--config", writeFile(tb, filepath.Join(dir, "config.toml"), []byte(config)))
	r.env = append(os.Environ(), "PATH="+folder(tb, name)+":"+os.Getenv("PATH"))
	conn, err := grpc.NewClient("unix://"+r.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	r.CRI = runtimeapi.NewRuntimeServiceClient(conn)
	r.Start(tb)
	r.Await(tb)
	// Shims survive containerd, so remove their containers first.
	tb.Cleanup(func() { r.removeAll(tb) })
	r.images = runtimeapi.NewImageServiceClient(conn)
	r.ctr = append(r.ctr, filepath.Join(folder(tb, name), "ctr"), "--address", r.Socket, "--namespace", "k8s.io", "images", "import")
	if name == Containerd {
		r.ctr = append(r.ctr, "--local")
	}
	path := filepath.Join(dir, "image.tar")
	writeTestImage(tb, path)
	r.load(tb, Image, path)
	return r
}

// configs are the configurations, with placeholders for the folder, the image of
// sandboxes, and runc. The machine may be a container without AppArmor and without the
// right to lower an OOM score.
var configs = map[string]string{
	Containerd: `version = 3
root = "%[1]s/root"
state = "%[1]s/state"
imports = []
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
address = "%[1]s/s"
[ttrpc]
address = "%[1]s/t"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "%[2]s"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["%[1]s"]
conf_dir = "%[1]s/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "%[3]s"
`,
	Containerd17:     version2,
	DebianContainerd: version2,
}

const version2 = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
address = "%[1]s/s"
[ttrpc]
address = "%[1]s/t"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "%[2]s"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "%[1]s"
conf_dir = "%[1]s/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "%[3]s"
`

// Await returns when the runtime answers.
func (r *Runtime) Await(tb testing.TB) {
	tb.Helper()
	await(tb, r.name, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), readyIn)
		defer cancel()
		_, err := r.CRI.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
		return err
	})
}

// Load adds an image of one layer.
func (r *Runtime) Load(tb testing.TB, name string, config ImageConfig, files ...ImageFile) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "image.tar")
	writeImage(tb, path, name, config, files)
	r.load(tb, name, path)
}

// load imports an image from an archive.
func (r *Runtime) load(tb testing.TB, name, path string) {
	tb.Helper()
	if out, err := exec.Command(r.ctr[0], slices.Concat(r.ctr[1:], []string{path})...).CombinedOutput(); err != nil {
		tb.Fatalf("importing the image %s: %v\n%s", name, err, out)
	}
	// The CRI plugin detects the image by an event.
	await(tb, "the image", func() error {
		resp, err := r.images.ImageStatus(tb.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err == nil && resp.GetImage() == nil {
			err = fmt.Errorf("%s is not there", name)
		}
		return err
	})
}

// removeAll removes every sandbox, with the containers in it.
func (r *Runtime) removeAll(tb testing.TB) {
	tb.Helper()
	select {
	case <-r.done:
		r.Start(tb)
	default:
		r.Signal(tb, syscall.SIGCONT)
	}
	r.Await(tb)
	ctx, cancel := context.WithTimeout(context.Background(), readyIn)
	defer cancel()
	list, err := r.CRI.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		tb.Errorf("listing the sandboxes to remove: %v", err)
		return
	}
	for _, s := range list.GetItems() {
		if err := r.removeSandbox(ctx, s.GetId()); err != nil {
			tb.Errorf("removing sandbox %s: %v", s.GetId(), err)
		}
	}
}

func (r *Runtime) removeSandbox(ctx context.Context, id string) error {
	if _, err := r.CRI.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := r.CRI.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// sweep ends what the runtime leaves behind: shims, which have its socket in their
// arguments, their processes, and mounts.
func (r *Runtime) sweep(tb testing.TB) {
	tb.Helper()
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range procs {
		data, _ := os.ReadFile(path)
		args := strings.Split(string(data), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") || !slices.Contains(args, r.Socket) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			tb.Logf("ending shim %d, which outlived its runtime", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range bytes.Lines(mounts) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && strings.HasPrefix(fields[1], r.dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		tb.Errorf("removing what the runtime left: %v", err)
	}
}
