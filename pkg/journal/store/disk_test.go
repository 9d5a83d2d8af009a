package store

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A small disk becomes full, and has space again. Then a process starts while it is mounted
// read-only, and later it can be written again.
func TestADiskThatIsFullOrReadOnly(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	opts := options(OS)
	opts.Dir, opts.SegmentBytes = filepath.Join(disk, "podconfigd"), 1<<20
	p, recovered := start(t, opts)
	m := newModel(1, recovered)
	m.padding = 2000
	p.append(m.set())

	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	var full journal.Commit
	for n := 0; full.Instance == "" || full.Stored; n++ {
		if full = p.append(m.set()); n > 100 {
			t.Fatal("the full disk was not noticed")
		}
	}
	if full.Instance == recovered.Instance {
		t.Errorf("a set that is not stored is shown under the instance of those that are")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the log heals", func() bool { return p.log.Status().Err == nil })
	if c := p.append(m.set()); c != (journal.Commit{Instance: full.Instance, Stored: true}) {
		t.Errorf("%+v", c)
	}

	p.end()
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	p, again := start(t, opts)
	if !again.Resumed || again.Instance != full.Instance {
		t.Errorf("on a read-only disk: %+v", again)
	}
	readOnly := p.append(m.set())
	if readOnly.Stored || readOnly.Instance == full.Instance || p.log.Status().Err == nil {
		t.Errorf("%+v", readOnly)
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=256k"); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the log heals", func() bool { return p.log.Status().Err == nil })
	if c := p.append(m.set()); c != (journal.Commit{Instance: readOnly.Instance, Stored: true}) {
		t.Errorf("%+v", c)
	}
	p.end()
	p, again = start(t, opts)
	p.end()
	if !again.Resumed || again.Instance != readOnly.Instance {
		t.Errorf("%+v", again)
	}
	equal(t, "state", final(again), m.pods)
}

// A small limit holds too. The present segment stays, and is a small part of the limit.
func TestASmallLimitOfTheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		opts.SegmentBytes, opts.MaxBytes = 0, 1<<20
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		m.padding = 20_000
		for range 200 {
			p.append(m.set())
			<-time.After(time.Second)
			if s := p.log.Status(); s.Bytes > opts.MaxBytes*3/2 {
				t.Fatalf("%d bytes in %d segments, and %d are allowed", s.Bytes, s.Segments, opts.MaxBytes)
			}
		}
		p.end()
	})
}
