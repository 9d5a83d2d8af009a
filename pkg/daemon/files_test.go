package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestTheHighestRevisionIsKept(t *testing.T) {
	r := revisionsBeside(filepath.Join(t.TempDir(), "podconfigd.sock"))
	if floor, err := r.floor(); floor != 0 || err != nil {
		t.Errorf("without a file: %d, %v", floor, err)
	}
	for _, n := range []int64{1795267200123, 1795267300000} {
		if err := r.reserve(n); err != nil {
			t.Fatal(err)
		}
		if floor, err := r.floor(); floor != n || err != nil {
			t.Errorf("after %d: %d, %v", n, floor, err)
		}
	}
	if files, _ := os.ReadDir(filepath.Dir(r.path)); len(files) != 1 {
		t.Errorf("%d files are left: %v", len(files), files)
	}
	for _, bad := range []string{"", "x", "-1", "9223372036854775807", strings.Repeat("1", 1<<20)} {
		if err := os.WriteFile(r.path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if floor, err := r.floor(); err == nil || !strings.Contains(err.Error(), r.path) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %d, %v", bad, floor, err)
		}
	}
	if err := errors.Join(os.Remove(r.path), syscall.Mkfifo(r.path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if floor, err := r.floor(); err == nil || !strings.Contains(err.Error(), r.path+": expected a regular file") {
		t.Errorf("of a FIFO: %d, %v", floor, err)
	}
}

// A directory that was removed while the daemon runs is created again.
func TestTheDirectoryOfTheRevisionIsCreatedAgain(t *testing.T) {
	parent := t.TempDir()
	r := revisionsBeside(filepath.Join(parent, "run", "podconfigd", "podconfigd.sock"))
	for _, n := range []int64{1795267200123, 1795267300000} {
		if err := r.reserve(n); err != nil {
			t.Fatal(err)
		}
		if floor, err := r.floor(); floor != n || err != nil {
			t.Errorf("after %d: %d, %v", n, floor, err)
		}
		if err := os.RemoveAll(filepath.Join(parent, "run")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, "run"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.reserve(1); err == nil || !strings.Contains(err.Error(), r.path) {
		t.Errorf("below a file: %v", err)
	}
}

// A revision that can't be written is tried again all the time, and leaves no files.
func TestARevisionThatCanNotBeWrittenLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	r := revisionsBeside(filepath.Join(dir, "podconfigd.sock"))
	if err := os.Mkdir(r.path, 0o755); err != nil { // as a container runtime does for a mount
		t.Fatal(err)
	}
	if err := r.reserve(1); err == nil || !strings.Contains(err.Error(), r.path) {
		t.Errorf("over a directory: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// If the clock is set back between two runs, revisions continue above those of the last
// run.
func TestRevisionsGrowOverARestart(t *testing.T) {
	c := Config{}
	c.Socket, c.StaticPodPath = new(filepath.Join(testutil.ShortDir(t), "s")), t.TempDir()
	future := time.Now().Add(24 * time.Hour).UnixMilli()
	if err := revisionsBeside(*c.Socket).reserve(future); err != nil {
		t.Fatal(err)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.journal.Revision(); got < future {
		t.Errorf("revisions begin at %d, below %d", got, future)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	testutil.Until(t, "revisions are reserved", func() bool {
		floor, err := revisionsBeside(*c.Socket).floor()
		return err == nil && floor > future
	})
	cancel()
	<-done
	if floor, err := revisionsBeside(*c.Socket).floor(); err != nil || floor != d.journal.Revision() {
		t.Errorf("after a clean stop at %d the file has %d, %v", d.journal.Revision(), floor, err)
	}
	next, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if last := d.journal.Revision(); next.journal.Resumable("", last, nil) == nil {
		t.Errorf("the next instance goes on from %d, the last revision of the one before", last)
	}
}

// A file of the directories of the socket and the state is a daemon's or is not. That the daemon
// makes no others is tested by test/script.
func TestMadeFile(t *testing.T) {
	files := fstest.MapFS{}
	for name, mode := range map[string]fs.FileMode{
		"podconfigd.sock": fs.ModeSocket, "any": fs.ModeSocket,
		"any.revision": 0, "any.revision.new": 0, ".any.revision123": 0,
		"lock": 0, "journal-0000000001.log": 0, "journal-0000000002.log.damaged-20261122T000000Z+": 0,
		"access-rules": 0, "access-rules.new": 0, ".podconfigd.sock.lock": 0,
		"export.json": 0, "export.json.new": 0, ".export.json.lock": 0,
	} {
		files["ours/"+name] = &fstest.MapFile{Mode: mode}
	}
	for name, mode := range map[string]fs.FileMode{
		"passwd": 0, "journal": 0, "journal-.log": 0, "journal-a.log": 0, "any.revision123": 0, "access-rules.yaml": 0, "a.lock": 0, ".lock": 0, "..lock": 0,
		"directory": fs.ModeDir, "lock": fs.ModeDir, "journal-0000000001.log": fs.ModeSymlink, "any.revision": fs.ModeDevice,
	} {
		files["foreign/"+name] = &fstest.MapFile{Mode: mode}
	}
	for dir, want := range map[string]bool{"ours": true, "foreign": false} {
		t.Run(dir, func(t *testing.T) {
			entries, err := files.ReadDir(dir)
			if err != nil || len(entries) < 9 {
				t.Fatal(entries, err)
			}
			for _, e := range entries {
				if got := MadeFile(e); got != want {
					t.Errorf("%s %v: got %v", dir, e, got)
				}
			}
		})
	}
}
