package file

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

// Renaming an ancestor of the path takes effect before the relist.
func TestAnAncestorThatIsRenamed(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := run(t, dir, Options{})
	h.expect()
	if err := errors.Join(os.Rename(filepath.Join(top, "a"), filepath.Join(top, "old")), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	h.put("new.yaml", "1")
	h.expect("new=1")
}

// stagedWatcher is inotify with a hook before each watch is added: changes at this moment
// are not reported.
type stagedWatcher struct {
	follow.Watcher
	before func(dir string)
}

func (w stagedWatcher) Add(dir string) error {
	w.before(dir)
	return w.Watcher.Add(dir)
}

// Directories that are created on the way to the path between two looks cause no event.
// Their files are found all the same.
func TestAPathThatGrowsUnwatched(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "a", "b", "c", "manifests")
	if err := os.Mkdir(filepath.Join(top, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	grown := make(chan struct{})
	h := run(t, dir, Options{openWatcher: func() (follow.Watcher, error) {
		w, err := follow.Inotify()
		return stagedWatcher{w, func(watched string) {
			if watched != filepath.Join(top, "a") {
				return
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Error(err)
			}
			close(grown)
		}}, err
	}})
	h.expect()
	<-grown
	h.put("new.yaml", "1")
	h.expect("new=1")
}

// After any changes of the path and its ancestors, the final files at the path are found,
// and not only by the relist.
func TestRandomLivesOfThePath(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			top := t.TempDir()
			first := filepath.Join(top, "a")
			dir := filepath.Join(first, "b", "manifests")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			h := run(t, dir, Options{pollPeriod: 20 * time.Millisecond})
			h.expect()
			for step := range 40 {
				path := []string{first, filepath.Dir(dir), dir}[random.IntN(3)]
				elsewhere := filepath.Join(top, fmt.Sprint("elsewhere", step))
				// Some of these may fail, for example if the path does not exist.
				switch random.IntN(5) {
				case 0:
					_ = os.Rename(path, elsewhere)
				case 1:
					_ = os.MkdirAll(dir, 0o755)
				case 2:
					_ = errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path))
				case 3:
					_ = os.Remove(path)
				case 4:
					_ = os.RemoveAll(path)
				}
				<-time.After(time.Duration(random.IntN(300)) * time.Microsecond)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil { // a dangling link
				if err := errors.Join(os.RemoveAll(first), os.MkdirAll(dir, 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond)
			h.put("new.yaml", "1")
			h.expect("new=1")
		})
	}
}
