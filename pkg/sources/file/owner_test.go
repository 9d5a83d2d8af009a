package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// next returns the next set.
func (h *harness) next() config.SourceSet {
	h.t.Helper()
	select {
	case set := <-h.sets:
		return set
	case <-time.After(testutil.Patience):
		h.t.Fatalf("no set for %v", testutil.Patience)
		return config.SourceSet{}
	}
}

// Each pod comes with the path, owner and mode of its manifest, as they were when this
// version was read. Of a symbolic link, owner and mode are those of the target.
func TestFilesOfPods(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to change the owner of a file")
	}
	h := run(t, t.TempDir(), Options{})
	h.expect()
	put := func(name, image string, uid int, mode os.FileMode) {
		t.Helper()
		h.prepare(name, image)
		path := filepath.Join(h.temp, name)
		if err := errors.Join(os.Chown(path, uid, uid+1), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		h.rename(name)
	}
	expect := func(want ...config.File) {
		t.Helper()
		set := h.next()
		var got []config.File
		for _, file := range set.Files {
			got = append(got, *file)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(set.Files) != len(want) {
			t.Errorf("the files are %v of %v, want %v", got, set.Files, want)
		}
	}
	a := config.File{Path: filepath.Join(h.dir, "a.yaml"), UID: 7, GID: 8, Mode: 0o640}
	put("a.yaml", "1", 7, 0o640)
	expect(a)

	// The content is the same, so the version is too.
	put("a.yaml", "1", 17, 0o600)
	put("b.yaml", "1", 9, 0o604|os.ModeSetuid) // only the permission bits count
	b := config.File{Path: filepath.Join(h.dir, "b.yaml"), UID: 9, GID: 10, Mode: 0o604}
	expect(a, b)
	put("a.yaml", "2", 17, 0o600)
	a.UID, a.GID, a.Mode = 17, 18, 0o600
	expect(a, b)

	// The last good version is held.
	path := filepath.Join(h.temp, "b.yaml")
	if err := os.WriteFile(path, []byte("kind: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	h.rename("b.yaml")
	target := filepath.Join(t.TempDir(), "target")
	h.prepare("c.yaml", "1")
	link := filepath.Join(h.temp, "link")
	if err := errors.Join(
		os.Rename(filepath.Join(h.temp, "c.yaml"), target), os.Chown(target, 11, 12), os.Chmod(target, 0o644),
		os.Symlink(target, link), os.Lchown(link, 99, 99), os.Rename(link, filepath.Join(h.dir, "c.yaml")),
	); err != nil {
		t.Fatal(err)
	}
	expect(a, b, config.File{Path: filepath.Join(h.dir, "c.yaml"), UID: 11, GID: 12, Mode: 0o644})
}
