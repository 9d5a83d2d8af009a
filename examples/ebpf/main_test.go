package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// mount mounts a file system until the test ends.
func mount(t *testing.T, kind string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount(kind, dir, kind, 0, ""); err != nil {
		t.Skipf("mounting %s: %v", kind, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// inKernel returns a map that is pinned at the path. It skips the test if this machine does not allow one.
func inKernel(t *testing.T, path string) kernel {
	t.Helper()
	k, err := open(path)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("no BPF map: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.m.Close() })
	return k
}

// entries returns the pods in a map, by cgroup.
func entries(m *ebpf.Map) string {
	var cgroup uint64
	var value pod
	found := make(map[uint64]string)
	for all := m.Iterate(); all.Next(&cgroup, &value); {
		text := func(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
		found[cgroup] = text(value.Namespace[:]) + "/" + text(value.Name[:]) + "/" + text(value.Container[:])
	}
	return fmt.Sprint(found) // sorted
}

// Entries come with the cgroup, and go with the container, also if it was removed while nobody watched.
func TestUpdates(t *testing.T) {
	container := func(op v1alpha1.Op, cgroup uint64, pod, name string) *v1alpha1.ContainerUpdate {
		c := &v1alpha1.PodContainer{Pod: v1alpha1.ContainerPod{Namespace: "default", Name: pod}}
		c.CgroupID, c.Name, c.Sandbox = cgroup, name, name == ""
		return &v1alpha1.ContainerUpdate{Op: op, Container: c}
	}
	long := strings.Repeat("a", 300)
	steps := []struct {
		update *v1alpha1.ContainerUpdate
		want   string
	}{
		{container(v1alpha1.OpAdd, 1, "web", ""), "map[1:default/web/ 9:old//]"},
		{container(v1alpha1.OpAdd, 0, "web", "app"), "map[1:default/web/ 9:old//]"},
		{&v1alpha1.ContainerUpdate{Op: v1alpha1.OpBookmark, InitialSyncComplete: true}, "map[1:default/web/]"},
		{container(v1alpha1.OpUpdate, 2, "web", "app"), "map[1:default/web/ 2:default/web/app]"},
		{container(v1alpha1.OpUpdate, 2, long, "app"), "map[1:default/web/ 2:default/" + long[:255] + "/app]"},
		{container(v1alpha1.OpRemove, 0, "web", "new"), "map[1:default/web/ 2:default/" + long[:255] + "/app]"},
		{container(v1alpha1.OpRemove, 2, "web", "app"), "map[1:default/web/]"},
		{container(v1alpha1.OpRemove, 2, "web", "app"), "map[1:default/web/]"},
		{container(v1alpha1.OpAdd, 3, "db", "c"), "map[1:default/web/ 3:default/db/c]"},
		{&v1alpha1.ContainerUpdate{Op: v1alpha1.OpBookmark, Reset: true}, "map[1:default/web/ 3:default/db/c]"},
		{container(v1alpha1.OpAdd, 4, "db", "d"), "map[1:default/web/ 3:default/db/c 4:default/db/d]"},
		{container(v1alpha1.OpAdd, 3, "db", "c"), "map[1:default/web/ 3:default/db/c 4:default/db/d]"},
		{&v1alpha1.ContainerUpdate{Op: v1alpha1.OpBookmark, InitialSyncComplete: true}, "map[3:default/db/c 4:default/db/d]"},
	}
	t.Run("memory", func(t *testing.T) {
		m := memory{9: {Namespace: [64]byte{'o', 'l', 'd'}}}
		p := pods{m, make(map[uint64]bool)}
		for i, step := range steps {
			if err := p.take(step.update); err != nil {
				t.Error(err)
			}
			if want := strings.Count(step.want, ":"); len(m) != want {
				t.Errorf("step %d: %v, want %d entries", i, m, want)
			}
		}
	})
	t.Run("kernel", func(t *testing.T) {
		path := filepath.Join(mount(t, "bpf"), "pods")
		if err := inKernel(t, path).put(9, &pod{Namespace: [64]byte{'o', 'l', 'd'}}); err != nil {
			t.Fatal(err)
		}
		k := inKernel(t, path) // the next run
		p := pods{k, make(map[uint64]bool)}
		for i, step := range steps {
			if err := p.take(step.update); err != nil {
				t.Error(err)
			}
			if got := entries(k.m); got != step.want {
				t.Errorf("step %d: got %s, want %s", i, got, step.want)
			}
		}
	})
}

// TestContainerMap runs the program beside a containerd. Another program reads the pinned map.
func TestContainerMap(t *testing.T) {
	bpffs, cgroups := mount(t, "bpf"), mount(t, "cgroup2")
	path := filepath.Join(bpffs, "pods")
	_ = inKernel(t, "") // or the test is skipped
	program := testutil.MustProgram(t, "examples/ebpf", "github.com/podconfigd/podconfigd/examples/ebpf")
	base := filepath.Join(cgroups, fmt.Sprint("test-ebpf-", os.Getpid()))
	if err := os.Mkdir(base, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, base) })
	var made []string
	t.Cleanup(func() { // when the containers are gone
		for _, dir := range made {
			remove(t, dir)
		}
	})
	r := components.StartRuntime(t, components.EachContainerd()[0])
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	args := []string{"--container-runtime-endpoint", "unix://" + r.Socket, "--node-ip", "192.0.2.7"}
	d := e2e.Start(t, dir, args...)
	t.Cleanup(d.Client.CloseIdleConnections)
	stream := d.Watch(t, client.Options{})
	d.Put(t, "web", components.Image)
	stream.Expect(t, "ADD web-node1")
	list, err := d.Client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uid := string(list.Items[0].UID)
	sandbox := r.Sandbox(t, "web-node1", uid)
	// start starts a container in a cgroup of version 2, which the machine may not have for containers. It returns its ID.
	start := func(name string) (id string, cgroup uint64) {
		id = r.Create(t, sandbox, "web-node1", uid, name, "pause")
		r.StartContainer(t, id)
		dir := filepath.Join(base, id)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		made = append(made, dir)
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(r.PID(t, id))), 0); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return id, info.Sys().(*syscall.Stat_t).Ino
	}
	app, first := start("app")
	sidecar, second := start("sidecar")

	log := new(testutil.Buffer)
	cmd := exec.CommandContext(t.Context(), program, "-pin", path)
	cmd.Env = append(cmd.Environ(), client.SocketEnv+"="+d.Socket)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	expect := func(want ...string) {
		t.Helper()
		testutil.Eventually(t, func() error {
			m, err := ebpf.LoadPinnedMap(path, nil)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, log)
			}
			defer m.Close()
			got := entries(m)
			for _, w := range want {
				if !strings.Contains(got, w) {
					return fmt.Errorf("got %s, want %s\n%s", got, want, log)
				}
			}
			if n := strings.Count(got, "/app") + strings.Count(got, "/sidecar"); n != len(want) {
				return fmt.Errorf("got %s, want %s\n%s", got, want, log)
			}
			return nil
		})
	}
	expect(fmt.Sprint(first, ":default/web-node1/app"), fmt.Sprint(second, ":default/web-node1/sidecar"))
	r.RemoveContainer(t, app)
	expect(fmt.Sprint(second, ":default/web-node1/sidecar"))
	d.Again(t, func() { r.RemoveContainer(t, sidecar) }, args...)
	expect()
	for _, line := range []string{fmt.Sprint("+ ", first, " default/web-node1/app\n"), fmt.Sprint("- ", first, "\n")} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line %s\n%s", line, log)
		}
	}
}

// remove removes a cgroup when it is empty.
func remove(t *testing.T, dir string) {
	t.Helper()
	testutil.Until(t, "the cgroup "+dir+" is removed", func() bool { err := os.Remove(dir); return err == nil || os.IsNotExist(err) })
}
