package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// These tests are in virtual time: no time passes for the log while the file system is busy, or while the test changes it.

// On a real file system: what is written comes back, and nobody else can read it.
func TestOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(OS)
		opts.Dir = filepath.Join(t.TempDir(), "lib", "podconfigd")
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		m.padding = 1000
		for range 50 {
			if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
				t.Fatalf("%+v", c)
			}
		}
		p.end()
		err := filepath.WalkDir(opts.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; info.Mode().Perm() != want {
				t.Errorf("%s: %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		opts.BootID = "boot-2"
		p, again := start(t, opts)
		p.end()
		if !again.Resumed || again.Revision != m.revision {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// The directory is removed while the log is written; then a file is in its place.
func TestTheDirectoryIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(OS)
		opts.Dir = filepath.Join(t.TempDir(), "podconfigd")
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		p.append(m.set())
		if err := os.RemoveAll(opts.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(opts.Dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		testutil.Until(t, "the log notices", func() bool { return p.log.Status().Err != nil })
		first := p.append(m.set())
		if first.Stored || first.Instance == recovered.Instance {
			t.Errorf("%+v", first)
		}
		if err := os.Remove(opts.Dir); err != nil {
			t.Fatal(err)
		}
		testutil.Until(t, "the log heals", func() bool { return p.log.Status().Err == nil })
		if c := p.append(m.set()); c != (journal.Commit{Instance: first.Instance, Stored: true}) {
			t.Errorf("%+v", c)
		}
		p.end()
		p, again := start(t, opts)
		p.end()
		if !again.Resumed || again.Instance != first.Instance {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// A file that somebody put there under the name of a segment delays no start, and no subscriber
// after the next start.
func TestAFifoInThePlaceOfASegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(OS)
		opts.Dir = t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(opts.Dir, segmentName(1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(opts.Dir, segmentName(2)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(opts.Dir, segmentName(3))); err != nil {
			t.Fatal(err)
		}
		p, again := start(t, opts)
		if c := p.append(newModel(1, again).set()); !c.Stored || len(again.Problems) != 3 {
			t.Errorf("%+v, %+v", c, again)
		}
		for _, problem := range again.Problems {
			if !strings.HasPrefix(problem.Aside, problem.File+".foreign-") {
				t.Errorf("%+v", problem)
			}
		}
		p.end()
		p, again = start(t, opts)
		p.end()
		if !again.Resumed || len(again.Problems) != 0 {
			t.Errorf("%+v", again)
		}
	})
}

// A copy takes the place of the directory while the log is written. What follows is not in
// it, so it does not count as stored there for long.
func TestACopyTakesThePlaceOfTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(OS)
		opts.Dir = filepath.Join(t.TempDir(), "podconfigd")
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		p.append(m.set())
		if err := os.Rename(opts.Dir, opts.Dir+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(opts.Dir, os.DirFS(opts.Dir+".old")); err != nil {
			t.Fatal(err)
		}
		p.append(m.set())
		testutil.Until(t, "the log notices, and heals", func() bool {
			names, err := filepath.Glob(filepath.Join(opts.Dir, "journal-*.log"))
			return err == nil && len(names) == 2 && p.log.Status().Err == nil
		})
		if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
			t.Errorf("%+v", c)
		}
		p.end()
		p, again := start(t, opts)
		p.end()
		if !again.Resumed || again.Instance != recovered.Instance || len(again.Problems) != 0 {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}
