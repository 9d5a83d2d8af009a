package file

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// exhaust uses all file descriptors of the process until free is called. A test that
// calls it must not run in parallel with others.
func exhaust(t *testing.T) (free func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: soft, Max: limit.Max}); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { set(limit.Cur) })
	set(1)
	return func() { set(limit.Cur) }
}

// awaitMessage waits until the verdict on the only manifest has the text.
func (h *harness) awaitMessage(text string) {
	h.t.Helper()
	for deadline := time.After(testutil.Patience); ; {
		manifests := h.source.Status().File.Manifests
		if len(manifests) == 1 && strings.Contains(manifests[0].Message, text) {
			return
		}
		select {
		case <-deadline:
			h.t.Fatalf("the verdicts are %+v, want %q", manifests, text)
		case <-time.After(time.Millisecond):
		}
	}
}

// A manifest that can't be opened because no file descriptor is left is read as soon as
// there is one, not only at the next relist.
func TestNoDescriptorLeft(t *testing.T) {
	h := run(t, t.TempDir(), Options{})
	h.expect()
	h.prepare("a.yaml", "1")
	free := exhaust(t)
	h.rename("a.yaml")
	h.awaitMessage("too many open files")
	free()
	h.expect("a=1")

	// The present pod stays in the meantime.
	h.prepare("a.yaml", "2")
	free = exhaust(t)
	h.rename("a.yaml")
	h.awaitMessage("too many open files")
	free()
	h.expect("a=2")
	h.awaitMessage("")
}

// A source without descriptors can't list its path either. Its first set still waits for the files that it could not open.
func TestNoDescriptorLeftForTheFirstSet(t *testing.T) {
	path := t.TempDir()
	testutil.WriteFile(t, filepath.Join(path, "a.yaml"), podtest.Manifest("a", "1"))
	s := New(Options{Path: path, Decoder: manifest.NewDecoder("node1")})
	sets := make(chan config.SourceSet, 1)
	take := func(change follow.Change) (sent int) {
		changed := s.applyChange(t.Context(), change)
		s.keep()
		if err := s.send(t.Context(), changed, config.Event{}, sets); err != nil {
			t.Fatal(err)
		}
		return len(sets)
	}
	listed := follow.Change{Listed: true, Dir: true, Names: []string{"a.yaml"}}
	free := exhaust(t)
	sent := take(listed) + take(follow.Change{Err: &fs.PathError{Op: "open", Path: path, Err: syscall.EMFILE}}) + take(follow.Change{})
	free()
	if sent > 0 {
		t.Errorf("a set of %d pods is sent before a manifest can be read", len((<-sets).Pods))
	}
	if take(listed) != 1 || len((<-sets).Pods) != 1 {
		t.Error("no set with the pod is sent when the manifest can be read")
	}
}
