package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A set has the time of the event from which it follows. A file that is being written counts from
// when that was noticed, not from when it was read at last.
func TestASetHasItsEvent(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	s := New(Options{Path: dir, Decoder: manifest.NewDecoder("node1"), Period: time.Hour})
	sets, done := make(chan config.SourceSet), make(chan error, 1)
	ctx := t.Context()
	started := time.Now()
	go func() { done <- s.Run(ctx, sets) }()
	t.Cleanup(func() { <-done })
	between := func(set config.SourceSet, from, to time.Time) {
		t.Helper()
		e := set.Event
		if e.Time.Before(from) || e.Time.After(to) {
			t.Errorf("the event was %v after its earliest time, %v before its latest", e.Time.Sub(from), to.Sub(e.Time))
		}
		if e.Began.Before(e.Time) || e.Read.Before(e.Began) || e.Read.After(time.Now()) {
			t.Errorf("event %v, began %v, read %v", e.Time, e.Began, e.Read)
		}
	}
	set := <-sets
	between(set, started, time.Now())

	f, err := os.Create(filepath.Join(testutil.ShortDir(t), "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n"); err != nil {
		t.Fatal(err)
	}
	// What comes before the source waits counts from the beginning of its work.
	began := set.Event.Began
	if err := os.Rename(f.Name(), filepath.Join(dir, "a.yaml")); err != nil { // one event, while it is open
		t.Fatal(err)
	}
	written := time.Now()
	testutil.Until(t, "the file is seen while it is written", func() bool { return s.Status().File.Settling == 1 })
	seen := time.Now()
	<-time.After(20 * time.Millisecond)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	set = <-sets
	between(set, began, seen)
	if len(set.Pods) != 1 || set.Event.Read.Sub(written) < 20*time.Millisecond {
		t.Errorf("%d pods, read %v after it was written", len(set.Pods), set.Event.Read.Sub(written))
	}

	testutil.Within(t, 0, "from the event to the removal", func() time.Duration {
		testutil.Until(t, "the source waits", func() bool { return s.follower.Busy() == 0 })
		<-time.After(time.Millisecond)
		began, before := set.Event.Began, time.Now()
		if err := os.Rename(filepath.Join(dir, "a.yaml"), f.Name()); err != nil {
			t.Fatal(err)
		}
		set = <-sets
		between(set, began, set.Event.Read.Add(-40*time.Millisecond)) // a file must be missing for a while
		early := before.Sub(set.Event.Time)
		if early > 0 {
			if err := os.Rename(f.Name(), filepath.Join(dir, "a.yaml")); err != nil {
				t.Fatal(err)
			}
			set = <-sets
		}
		return early
	})
}
