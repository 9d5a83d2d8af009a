//go:build linux

package testutil

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Hang mounts a file system that does not answer over the directory, until the function is called
// or the test ends. It skips the test if it may not mount one.
func Hang(tb testing.TB, dir string) (end func()) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root to mount")
	}
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		tb.Skip("there is no FUSE: ", err)
	}
	if err := unix.Mount("hang", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)); err != nil {
		tb.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = errors.Join(unix.Unmount(dir, unix.MNT_DETACH), unix.Close(fuse))
		}
	}
	tb.Cleanup(end)
	return end
}
