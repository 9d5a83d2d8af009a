package runtime

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// cgroup2 returns the mount of cgroup v2. It mounts it until the test ends if the machine has none.
func cgroup2(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	dir := t.TempDir()
	if err := syscall.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
		t.Skipf("mounting cgroup v2: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// sweepCgroups removes the cgroups of a test in all hierarchies. Processes that are in them go to the root.
func sweepCgroups(t *testing.T, base string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(fields[2], "cgroup") {
			continue
		}
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(fields[1], base), func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for pid := range strings.FieldsSeq(string(pids)) {
				_ = os.WriteFile(filepath.Join(fields[1], "cgroup.procs"), []byte(pid), 0)
			}
			testutil.Until(t, "the cgroup "+dir+" is removed", func() bool { return os.Remove(dir) == nil })
		}
	}
}

// makeCgroup makes a cgroup below a mount, with those above it.
func makeCgroup(t *testing.T, mount, path string) (dir string) {
	t.Helper()
	dir = filepath.Join(mount, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inode returns the inode of a file: the ID of a cgroup, or of a namespace.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// runIn starts a command in a cgroup, in new namespaces. The test ends it.
func runIn(t *testing.T, cgroup string, flags uintptr, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Cloneflags: flags}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// TestHandles looks up a container by what the kernel knows it by. If the machine has cgroup v1, the test puts the container into a
// cgroup of version 2 too.
func TestHandles(t *testing.T) {
	t.Parallel()
	mount := cgroup2(t)
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			base := fmt.Sprintf("/test-%d-%s-kubepods", os.Getpid(), name)
			t.Cleanup(func() { sweepCgroups(t, base) })
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
			t.Cleanup(d.Client.CloseIdleConnections)
			pods := d.Watch(t, client.Options{})
			e2e.SyncUp(t, pods)
			d.Put(t, "web", components.Image)
			pods.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")
			parent := base + "/pod" + uid
			sandbox := r.SandboxIn(t, "web-node1", uid, parent)
			c, other := r.Create(t, sandbox, "web-node1", uid, "c", "pause"), r.Create(t, sandbox, "web-node1", uid, "other", "pause")
			r.StartContainer(t, c)
			pid := r.PID(t, c)

			path := parent + "/" + c
			cgroup := makeCgroup(t, mount, path) // it is there if runc made it
			if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Fatal(err)
			}
			below := makeCgroup(t, mount, path+"/"+other) // a container may choose this name
			sleeper := runIn(t, below, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, "sleep", "3600")
			ns := func(pid int, kind string) uint64 { return inode(t, fmt.Sprintf("/proc/%d/ns/%s", pid, kind)) }

			const shown = "file default/web-node1 c running"
			testutil.Until(t, "the runtime was listed after the start", func() bool {
				got, _ := lookup(t, d, client.LookupQuery{ContainerID: c})
				return got == shown
			})
			log := "/var/log/pods/default_web-node1_" + uid + "/c/0.log"
			for what, q := range map[string]client.LookupQuery{
				"its ID": {ContainerID: c}, "its cgroup": {CgroupID: inode(t, cgroup)}, "a cgroup below": {CgroupID: inode(t, below)},
				"its mounts": {MntNS: ns(pid, "mnt")}, "its PIDs": {PidNS: ns(pid, "pid")},
				"a network of its own": {NetNS: ns(sleeper.Process.Pid, "net")}, "mounts of its own": {MntNS: ns(sleeper.Process.Pid, "mnt")},
				"a process": {PID: sleeper.Process.Pid}, "its log": {LogPath: log}, "a rotated log": {LogPath: log + ".20260101-101010.gz"},
			} {
				q.Wait = time.Minute
				got, pod := lookup(t, d, q)
				if got != shown {
					t.Errorf("by %s: got %s, want %s", what, got, shown)
					continue
				}
				h := pod.Container
				if h.PID != pid || h.StartTime == 0 || h.Cgroup != path || h.CgroupID != inode(t, cgroup) || h.SandboxID != sandbox ||
					h.MntNS != ns(pid, "mnt") || h.PidNS != ns(pid, "pid") || h.NetNS != ns(pid, "net") || h.CgroupNS != ns(pid, "cgroup") {
					t.Errorf("by %s: %+v", what, h)
				}
			}
			if got, _ := lookup(t, d, client.LookupQuery{CgroupID: inode(t, filepath.Dir(cgroup))}); got != "file default/web-node1" {
				t.Errorf("by the cgroup of the pod: got %s", got)
			}
			if got, pod := lookup(t, d, client.LookupQuery{PidNS: ns(r.SandboxPID(t, sandbox), "pid")}); got != "file default/web-node1  running" || pod.Container.ID != sandbox {
				t.Errorf("by the PIDs of the sandbox: got %s", got)
			}

			// The containers of the test are in its network.
			answer, err := d.Client.Lookup(t.Context(), client.LookupQuery{NetNS: ns(os.Getpid(), "net")})
			if err != nil || answer.Host == nil || answer.Host.Namespace != "netns" || answer.Host.Pods != 1 || len(answer.Pods) != 0 {
				t.Errorf("the network of the host: %+v, %v", answer, err)
			}
			matches(t, d, []string{"lookup", fmt.Sprint("netns:", ns(os.Getpid(), "net"))}, `^It is the network namespace of the host\. 1 pod is in it\.\n$`)
			matches(t, d, []string{"lookup", fmt.Sprint("cgroup:", inode(t, below))}, `(?m)^default +web-node1 +c +running +file$`)

			// A client in the container, and one outside.
			self := runIn(t, below, 0, "sh", "-c", `"$@" >"$0" 2>&1`, filepath.Join(dir, "self"), e2e.Ctl, "--socket", d.Socket, "lookup", "self")
			err = self.Wait()
			if out, _ := os.ReadFile(filepath.Join(dir, "self")); err != nil || !strings.Contains(string(out), "web-node1   c ") {
				t.Errorf("a client in the container: %v, %s", err, out)
			}
			want := fmt.Sprintf("%d looking up the client, process %d: it runs in no container", http.StatusNotFound, os.Getpid())
			if got, _ := lookup(t, d, client.LookupQuery{Self: true}); !strings.HasPrefix(got, want) {
				t.Errorf("a client outside: got %s, want %s", got, want)
			}
		})
	}
}
