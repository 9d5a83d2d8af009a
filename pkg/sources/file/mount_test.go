package file

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// inMountNamespace runs the test in a process with its own mount namespace. It reports
// whether this is that process.
func inMountNamespace(t *testing.T) bool {
	t.Helper()
	const inside = "PODCONFIGD_TEST_IN_MOUNT_NAMESPACE"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("no mount namespace can be had: ", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// A mount over the path or over a directory above it takes effect at the next poll, and one over a file in it at the next
// relist. So does an unmount.
func TestMounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source, target string // an empty file system without a source
		want           []string
	}{
		"an empty file system over the path": {"", "a/manifests", nil},
		"a directory over the path":          {"other/manifests", "a/manifests", []string{"a=2"}},
		"a directory over the one above":     {"other", "a", []string{"a=2"}},
		"a file over a manifest":             {"other/manifests/a.yaml", "a/manifests/a.yaml", []string{"a=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !inMountNamespace(t) {
				return
			}
			top := t.TempDir()
			dir, other := filepath.Join(top, "a", "manifests"), filepath.Join(top, "other", "manifests")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(other, 0o755)); err != nil {
				t.Fatal(err)
			}
			h := run(t, dir, Options{Period: 100 * time.Millisecond})
			h.expect()
			h.put("a.yaml", "1")
			h.expect("a=1")
			h.prepare("a.yaml", "2")
			if err := os.Rename(filepath.Join(h.temp, "a.yaml"), filepath.Join(other, "a.yaml")); err != nil {
				t.Fatal(err)
			}
			source, target, fstype, flags := filepath.Join(top, test.source), filepath.Join(top, test.target), "", uintptr(syscall.MS_BIND)
			if test.source == "" {
				source, fstype, flags = "none", "tmpfs", 0
			}
			if err := syscall.Mount(source, target, fstype, flags, ""); err != nil {
				t.Fatal(err)
			}
			h.expect(test.want...)
			if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			h.expect("a=1")
		})
	}
}
