package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// If two watched directories are swapped in one step, both are watched after that.
func TestDirectoriesThatChangePlaces(t *testing.T) {
	top := t.TempDir()
	dirs := make(map[string]struct{})
	for i := range 8 { // the order of the map is random
		for _, name := range []string{"x", "y"} {
			dir := filepath.Join(top, fmt.Sprint(name, i))
			dirs[dir] = struct{}{}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := watches{open: Inotify}
	defer w.close()
	if _, err := w.set(dirs); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		x, y := filepath.Join(top, fmt.Sprint("x", i)), filepath.Join(top, fmt.Sprint("y", i))
		if err := unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, y, unix.RENAME_EXCHANGE); err != nil {
			t.Skip(err) // not supported by every file system
		}
	}
	if added, err := w.set(dirs); err != nil || !added {
		t.Fatal(added, err)
	}
	for dir := range dirs {
		file := filepath.Join(dir, "new")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for reported := false; !reported; {
			select {
			case event := <-w.events():
				reported = event.Name == file
			case <-time.After(testutil.Patience):
				t.Fatal("no event for ", file)
			}
		}
	}
}
