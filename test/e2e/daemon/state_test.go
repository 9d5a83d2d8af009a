package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// fat returns a manifest that needs more than a page of a disk.
func fat(name, version string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-%[1]s, annotations: {v: %q, fat: %q}}\n"+
		"spec: {containers: [{name: c, image: i}]}\n", name, version, strings.Repeat("x", 64<<10))
}

// stored waits until the status says whether updates are stored.
func stored(t *testing.T, d *e2e.Daemon, want bool) *v1alpha1.Status {
	t.Helper()
	var status *v1alpha1.Status
	testutil.Until(t, fmt.Sprintf("stored is %t", want), func() bool {
		var err error
		if status, err = d.Client.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return status.State.Stored == want
	})
	return status
}

func body(t *testing.T, d *e2e.Daemon) string {
	t.Helper()
	_, _, body := d.Ask(t, "/pods")
	return body
}

// stateFault makes the state directory fail with an error, and returns what mends it. disk is
// where its file system is mounted.
type stateFault struct {
	mount func(t *testing.T, disk string)
	do    func(t *testing.T, d *e2e.Daemon, disk, state string) (mend func())
	err   string
}

func mountTmpfs(size string) func(t *testing.T, disk string) {
	return func(t *testing.T, disk string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
}

// fill fills the disk.
func fill(t *testing.T, _ *e2e.Daemon, disk, _ string) (mend func()) {
	t.Helper()
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	return func() { _ = os.Remove(filler) }
}

// remove moves the directory away, and has a file in its place.
func remove(t *testing.T, _ *e2e.Daemon, _, state string) (mend func()) {
	t.Helper()
	if err := os.Rename(state, state+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, nil, 0o600); err != nil { // so that it can't be created again
		t.Fatal(err)
	}
	return func() { _ = os.Remove(state) }
}

// remount mounts the disk again, read-only. The kernel refuses that while a file is open for
// writing, so the disk is full first.
func remount(t *testing.T, d *e2e.Daemon, disk, state string) (mend func()) {
	t.Helper()
	readOnly := func() error { return syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") }
	if err := readOnly(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a disk that is written is remounted: %v", err)
	}
	fill(t, d, disk, state)
	for version := 0; ; version++ {
		status, err := d.Client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !status.State.Stored {
			break
		}
		d.PutFile(t, "a", fat("a", fmt.Sprint("filling ", version)))
	}
	testutil.Eventually(t, readOnly)
	testutil.Until(t, "the status has the error", func() bool {
		return strings.Contains(stored(t, d, false).State.LastError, "read-only file system")
	})
	return func() {
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Error(err)
		}
	}
}

// mountExt4 mounts a small ext4 that becomes read-only at an error.
func mountExt4(t *testing.T, disk string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	for _, args := range [][]string{
		{"truncate", "--size=16M", image}, {"mkfs.ext4", "-q", "-O", "^has_journal", image}, {"mount", "-o", "loop,errors=remount-ro", image, disk},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%q: %v: %s", args, err, out)
		}
	}
}

// fail has the kernel find an error in the ext4, and make it read-only although the segment is
// open. It stays read-only. Another disk takes its place.
func fail(t *testing.T, _ *e2e.Daemon, disk, _ string) (mend func()) {
	t.Helper()
	var at syscall.Stat_t
	if err := syscall.Stat(disk, &at); err != nil {
		t.Fatal(err)
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(at.Dev), unix.Minor(at.Dev)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", []byte("test"), 0); err != nil {
		t.Skip(err)
	}
	return func() { mountTmpfs("64m")(t, disk) }
}

// A full disk, one that becomes read-only, or a state directory that is removed, costs
// subscribers one reset. When there is room again, updates are stored again, without a
// further reset, and survive kill -9.
func TestAStateDirectoryThatFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]stateFault{
		"full":              {mountTmpfs("2m"), fill, "no space left on device"},
		"removed":           {mountTmpfs("64m"), remove, "not a directory"},
		"remounted":         {mountTmpfs("2m"), remount, "read-only file system"},
		"error of the disk": {mountExt4, fail, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := filepath.Join(testutil.ShortDir(t), "disk")
			if err := os.Mkdir(disk, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = errors.Join(syscall.Unmount(disk, syscall.MNT_DETACH), syscall.Unmount(disk, syscall.MNT_DETACH)) // there may be two
			})
			fault.mount(t, disk)
			args := []string{"--state-dir", filepath.Join(disk, "state")}
			d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
			d.Mkdir(t)
			d.PutFile(t, "a", fat("a", "0"))
			d = e2e.Start(t, d.Dir, args...)
			s := d.Watch(t, client.Options{})
			e2e.SyncUp(t, s)
			before := stored(t, d, true)

			mend := fault.do(t, d, disk, filepath.Join(disk, "state"))
			for version, stored := 0, true; stored; version++ { // the log may have room for a few
				status, err := d.Client.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				stored = status.State.Stored
				d.PutFile(t, "a", fat("a", fmt.Sprint("lost ", version)))
				testutil.Until(t, "the version is there", func() bool { return strings.Contains(body(t, d), fmt.Sprint("lost ", version)) })
			}
			failed := stored(t, d, false)
			if failed.Instance == before.Instance || !strings.Contains(failed.State.LastError, fault.err) || failed.State.FailedSince == nil || failed.Ready {
				t.Errorf("%+v", failed.State)
			}
			if code, _, body := d.Ask(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "updates are not stored") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			mend()
			healed := stored(t, d, true)
			d.PutFile(t, "a", fat("a", "kept"))
			testutil.Until(t, "the version is there", func() bool { return strings.Contains(body(t, d), "kept") })
			if !healed.Ready {
				t.Error("the status is not ready")
			}
			if healed.Instance != failed.Instance {
				t.Error("a further instance began when the disk was mended")
			}

			d = d.Again(t, func() { d.PutFile(t, "b", fat("b", "0")) }, args...)
			testutil.Until(t, "the subscriber has b", func() bool { return strings.Contains(body(t, d), "uid-b") })
			resets := 0
			for last := ""; last != "b-node1"; {
				u := <-s.Updates
				if u.Reset {
					resets++
					t.Log(u.Message)
				}
				if len(u.Pods) > 0 {
					last = u.Pods[0].Name
				}
			}
			if resets != 1 {
				t.Errorf("%d resets, want 1", resets)
			}
		})
	}
}
