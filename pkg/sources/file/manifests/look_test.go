package manifests

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// A file that is removed between the look and the open is gone, not a dangling link.
func TestReadOfAFileThatIsGone(t *testing.T) {
	l := looker{metrics: newMetrics(nil)}
	var s sight
	l.read(filepath.Join(t.TempDir(), "gone.yaml"), false, knowledge{}, &s)
	if !s.gone || s.fault != nil {
		t.Errorf("gone: %t, fault: %v", s.gone, s.fault)
	}
	s = sight{}
	l.read(filepath.Join(t.TempDir(), "link.yaml"), true, knowledge{}, &s)
	if s.gone || s.fault == nil || s.fault.reason != reasonDanglingLink {
		t.Errorf("of a link: gone: %t, fault: %v", s.gone, s.fault)
	}
}

// The looker trusts a file's times only if they are old enough.
func TestSignatures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write := func(image string) {
		if err := os.WriteFile(path, []byte(podtest.Manifest("a", image)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := looker{decoder: manifest.NewDecoder("n"), metrics: newMetrics(nil)}
	write("1")
	first := l.look(path, knowledge{})
	if first.pod == nil || first.trusted {
		t.Fatalf("a file just written: %+v", first)
	}
	again := l.look(path, first.knowledge)
	if !again.same || testutil.ToFloat64(l.metrics.reads) != 2 || testutil.ToFloat64(l.metrics.decodes) != 1 {
		t.Errorf("it was not read again, or decoded again: %+v", again)
	}
	old := first.knowledge
	old.trusted = true
	if s := l.look(path, old); !s.same || testutil.ToFloat64(l.metrics.reads) != 2 {
		t.Errorf("a file of old times was read again: %+v", s)
	}
	write("2")
	if s := l.look(path, first.knowledge); s.same || s.pod == nil {
		t.Errorf("a change was not noticed: %+v", s)
	}
	if s := (signature{mtime: time.Unix(100, 0), inode: inode{ctime: time.Unix(100, 0)}}); s.settled(time.Unix(101, 0)) || !s.settled(time.Unix(103, 0)) {
		t.Error("settled is wrong")
	}
}

func TestWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func() *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	if got := writers(read()); got == unknownWriters {
		t.Skip("leases can't be had here")
	} else if got != someWriters {
		t.Errorf("with a writer: %v", got)
	}
	if !beingWritten(read(), time.Now()) || beingWritten(read(), time.Now().Add(-2*settleWindow)) {
		t.Error("beingWritten does not go by the time of the last modification")
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if got := writers(read()); got != noWriters {
		t.Errorf("without: %v", got)
	}
}

// A file that blocks its readers until there is more is Unreadable. It does not block the
// source.
func TestAFileThatBlocksItsReaders(t *testing.T) {
	const path = "/proc/kmsg"
	if f, err := os.Open(path); err != nil {
		t.Skip(err)
	} else {
		f.Close()
	}
	l := looker{decoder: manifest.NewDecoder("n"), metrics: newMetrics(nil)}
	if s := l.look(path, knowledge{}); s.fault == nil || s.fault.reason != reasonUnreadable {
		t.Errorf("the fault is %v", s.fault)
	}
}
