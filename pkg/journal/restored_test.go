package journal

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Restored sources count as known, but not as seen. Housekeeping waits for all sources.
func TestKnown(t *testing.T) {
	seen, restored, neither := v1alpha1.SourceState{Seen: true}, v1alpha1.SourceState{Restored: true}, v1alpha1.SourceState{}
	for name, test := range map[string]struct {
		sources    map[string]v1alpha1.SourceState
		known, any bool
		restored   []string
	}{
		"none":             {map[string]v1alpha1.SourceState{}, true, false, nil},
		"unseen":           {map[string]v1alpha1.SourceState{"file": neither}, false, false, nil},
		"seen":             {map[string]v1alpha1.SourceState{"file": seen}, true, true, nil},
		"restored":         {map[string]v1alpha1.SourceState{"file": restored, "api": restored}, true, true, []string{"api", "file"}},
		"restored, seen":   {map[string]v1alpha1.SourceState{"file": seen, "api": restored}, true, true, []string{"api"}},
		"restored, unseen": {map[string]v1alpha1.SourceState{"file": neither, "api": restored}, false, true, []string{"api"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Bookmark{Sources: test.sources}
			if b.Known() != test.known || b.AnyKnown() != test.any || !slices.Equal(b.AllRestored(), test.restored) {
				t.Errorf("known %t, any %t, restored %v", b.Known(), b.AnyKnown(), b.AllRestored())
			}
		})
	}
}

func TestARestoredSource(t *testing.T) {
	j := newJournal(Options{Sources: []string{"file", "api"}, Recovered: recoveredOf("file", pod("a"))})
	if got := j.Restored(); !slices.Equal(got, []string{"file"}) {
		t.Errorf("restored: %v", got)
	}
	if got := j.Unseen(); !slices.Equal(got, []string{"api", "file"}) {
		t.Errorf("not seen: %v", got)
	}
	status := j.Status()
	if s := status.Sources[1]; s.Name != "file" || s.Seen || !s.Restored || s.Pods != 1 {
		t.Errorf("status: %+v", s)
	}
	if s := status.Sources[0]; s.Seen || s.Restored {
		t.Errorf("status: %+v", s)
	}
	appendSet(j, update(config.ADD))
	if s := j.Status().Sources[1]; !s.Seen || s.Restored {
		t.Errorf("status after a set: %+v", s)
	}
	if j.AllReady() || len(j.Restored()) > 0 {
		t.Errorf("ready %t, restored %v", j.AllReady(), j.Restored())
	}
}

// WaitKnown returns when the last source is seen or restored.
func TestWaitKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(Options{Sources: []string{"file", "api"}, Recovered: recoveredOf("api", pod("a"))})
		done := make(chan error, 1)
		go func() { done <- j.WaitKnown(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("WaitKnown returned %v while file is not known", err)
		default:
		}
		appendSet(j, update(config.ADD))
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		unknown := newJournal(Options{})
		if err := unknown.WaitKnown(ctx); !errors.Is(err, cause) {
			t.Errorf("WaitKnown returned %v", err)
		}
	})
}

// A removed source is forgotten in the same set as its pods: after a crash between two sets, it
// would come back without pods.
func TestARemovedSourceIsForgottenWithItsPods(t *testing.T) {
	for _, pods := range [][]*v1.Pod{nil, {pod("a")}} {
		j := newJournal(Options{})
		if pods != nil {
			j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: pods})
		}
		first := j.Revision()
		j.HandleSourceChange(t.Context(), config.PodUpdate{Op: config.REMOVE, Source: "file", Change: config.SourceRemoved, Pods: pods})
		reading, err := j.After(first, nil, 10)
		if err != nil || len(reading.Sets) != 1+len(pods) || len(reading.Sets[0].Sources) != 1 || reading.Sets[0].Sources[0].Seen {
			t.Errorf("with %d pods: %+v, %v", len(pods), reading.Sets, err)
		}
	}
}

// recoveredOf returns the state of an earlier run in which a source had a pod. (A test of this package can't
// import test/testutil/recovered.)
func recoveredOf(source string, object *v1.Pod) *Recovered {
	const base = 1 << 50 // later than the time in milliseconds
	pods := func(yield func(*Pod, int64) bool) { yield(NewStored(source, object, nil, base, nil), 0) }
	sources := map[string]Source{source: {Name: source, Seen: true}}
	return &Recovered{Instance: "restored", Base: NewTable(base, pods, sources), Revision: base, Reserved: base - 1, Resumed: true}
}
