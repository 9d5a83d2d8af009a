package file

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// While the file system hangs, the pods stay, the status says so, and Run can be ended.
func TestHungFileSystem(t *testing.T) {
	t.Parallel()
	if !inMountNamespace(t) {
		return
	}
	dir := t.TempDir()
	h := run(t, dir, Options{stuckAfter: 50 * time.Millisecond, pollPeriod: time.Millisecond})
	h.expect()
	h.put("a.yaml", "1")
	h.expect("a=1")

	answer := testutil.Hang(t, dir)
	testutil.Until(t, "the source is degraded", func() bool {
		return strings.Contains(h.source.Status().LastError, "the file system may not answer")
	})
	if got := len(h.source.Last().Pods); got != 1 {
		t.Errorf("%d pods are kept, want 1", got)
	}
	answer()
	testutil.Until(t, "the source reads again", func() bool { return !h.source.Status().Degraded })
	h.put("a.yaml", "2")
	h.expectAtLast("a=2") // the file that could not be read may be read once more before it is changed

	// Run returns while the file system hangs, and nothing is sent when it answers.
	stopped := New(Options{Path: dir, Decoder: manifest.NewDecoder("node1"), stuckAfter: 50 * time.Millisecond})
	answer = testutil.Hang(t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	sets, end := make(chan config.SourceSet, 1), make(chan error)
	go func() { end <- stopped.Run(ctx, sets) }()
	testutil.Until(t, "the new source is degraded", func() bool { return stopped.Status().Degraded })
	stop := errors.New("stop")
	cancel(stop)
	if err := <-end; !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	answer()
	testutil.Until(t, "its goroutine has ended", func() bool { return stopped.follower.Busy() == 0 })
	if len(sets) > 0 {
		t.Error("a set was sent after the end")
	}
}

// A set that is not taken for long, because what takes it waits, is not a file system that hangs.
func TestSetThatWaits(t *testing.T) {
	t.Parallel()
	h := run(t, t.TempDir(), Options{})
	h.expect()
	h.put("a.yaml", "1")
	// Nothing takes the set.
	testutil.Until(t, "the manifest is read, and the source is not busy", func() bool {
		return len(h.source.Status().File.Manifests) == 1 && h.source.follower.Busy() == 0
	})
	h.expect("a=1")
}
