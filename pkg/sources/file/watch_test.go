package file

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	if err := errors.Join(
		os.MkdirAll(at("data", "v1"), 0o755), os.WriteFile(at("data", "v1", "f"), nil, 0o644),
		os.Symlink("v1", at("data", "current")), os.Symlink("data/current/f", at("link")), os.Symlink(at("link"), at("again")),
		os.Symlink("round", at("turn")), os.Symlink("turn", at("round")), os.Symlink("../nothing", at("data", "dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, real string
		hops       []string
		err        error
	}{
		{at("data", "v1", "f"), at("data", "v1", "f"), []string{at("data", "v1", "f")}, nil},
		{at("again"), at("data", "v1", "f"), []string{at("again"), at("link"), at("data", "current"), at("data", "v1", "f")}, nil},
		{at("data", "dangling"), at("nothing"), []string{at("data", "dangling"), at("nothing")}, syscall.ENOENT},
		{at("data", "..", "data", ".", "v1"), at("data", "v1"), []string{at("data", "v1")}, nil},
		{at("nothing", "below"), at("nothing"), []string{at("nothing")}, syscall.ENOENT},
		{at("round"), "", nil, syscall.ELOOP},
	} {
		hops, real, err := resolve(test.path)
		if !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.path, err, test.err)
		}
		if test.hops == nil {
			continue
		}
		var got []string
		for _, h := range hops {
			got = append(got, h.path())
		}
		if real != test.real || fmt.Sprint(got) != fmt.Sprint(test.hops) {
			t.Errorf("%s leads to %s by %v, want %s by %v", test.path, real, got, test.real, test.hops)
		}
	}
}

// An ancestor of the path that is renamed is noticed before the relist.
func TestAnAncestorThatIsRenamed(t *testing.T) {
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

// stagedWatcher is inotify, and does something just before each watch is added: the
// moment at which a change is seen by nobody.
type stagedWatcher struct {
	watcher
	before func(dir string)
}

func (w stagedWatcher) Add(dir string) error {
	w.before(dir)
	return w.watcher.Add(dir)
}

// What comes into being on the way to the path between two looks at it is told by
// no event, and yet what is in it then is.
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
	h := run(t, dir, Options{openWatcher: func() (watcher, error) {
		w, err := newInotify()
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

// Two watched directories that change places in one step are both watched after.
func TestDirectoriesThatChangePlaces(t *testing.T) {
	top := t.TempDir()
	dirs := make(map[string]struct{})
	for i := range 8 { // the order in which they are gone over is not ours to choose
		for _, name := range []string{"x", "y"} {
			dir := filepath.Join(top, fmt.Sprint(name, i))
			dirs[dir] = struct{}{}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := watches{open: newInotify}
	defer w.close()
	if _, err := w.set(dirs); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		x, y := filepath.Join(top, fmt.Sprint("x", i)), filepath.Join(top, fmt.Sprint("y", i))
		if err := unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, y, unix.RENAME_EXCHANGE); err != nil {
			t.Skip(err) // not every file system can
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
		for told := false; !told; {
			select {
			case event := <-w.events():
				told = event.Name == file
			case <-time.After(20 * time.Second):
				t.Fatal("nothing was told of ", file)
			}
		}
	}
}

// Whatever becomes of the path and its ancestors, what is at it in the end is found,
// and not only by the relist.
func TestRandomLivesOfThePath(t *testing.T) {
	for seed := range uint64(60) {
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
				// That some of these fail, as for want of the path, is part of the game.
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
			if err := os.MkdirAll(dir, 0o755); err != nil { // a link that leads nowhere
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
