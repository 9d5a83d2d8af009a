package sourcetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// patience is the longest wait for something that must come.
	patience = 2 * time.Minute
	// quiet is how long a test waits before it assumes that nothing comes. It is several periods of
	// the places under test, and longer than a file must be missing.
	quiet = 100 * time.Millisecond
	// endsWithin is the longest time that Run may take to return: a second, on a busy
	// machine.
	endsWithin = 5 * time.Second
)

var errEnd = errors.New("the test ends it")

// Run tests a source's contract on places that newPlace makes.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Place){
		"the first set may be empty":          firstSetEmpty,
		"the first set is all there is":       firstSetFull,
		"every change is a full set":          changes,
		"unavailable is not empty":            unavailable,
		"unavailable from the start":          unavailableFromTheStart,
		"it ends at once":                     endsAtOnce,
		"it ends while idle":                  endsIdle,
		"it ends while nobody reads":          endsUnread,
		"it ends while nobody reads a change": endsUnreadChange,
		"it ends while unavailable":           endsUnavailable,
		"a restart without a change":          restartUnchanged,
		"a restart after changes":             restartChanged,
		"unavailable at a restart":            restartUnavailable,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPlace(t)) })
	}
}

// running is a source during Run.
type running struct {
	source sources.Source
	sets   chan config.SourceSet
	cancel context.CancelCauseFunc
	ended  chan error
	// sent are the pods as sent. copies are copies of their contents, which must not
	// change.
	sent, copies []*v1.Pod
	last         map[string]*v1.Pod
	set          config.SourceSet
	ignored      goleak.Option
}

func start(t *testing.T, place Place) *running {
	t.Helper()
	return startWith(t, place, sources.Restored{})
}

func startWith(t *testing.T, place Place, restored sources.Restored) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{
		source: place.Source(restored), sets: make(chan config.SourceSet), cancel: cancel, ended: make(chan error, 1),
		last: make(map[string]*v1.Pod), ignored: goleak.IgnoreCurrent(),
	}
	for _, pod := range restored.Pods {
		r.sent, r.copies = append(r.sent, pod), append(r.copies, pod.DeepCopy())
	}
	go func() { r.ended <- r.source.Run(ctx, r.sets) }() //nolint:ctxsend // it has room for the only value
	t.Cleanup(func() { r.stopSource(t) })
	return r
}

// stopSource ends the source. It checks how Run returns, and that nothing it sent has changed.
func (r *running) stopSource(t *testing.T) {
	t.Helper()
	if r.ended == nil {
		return
	}
	begin := time.Now()
	r.cancel(errEnd)
	select {
	case err := <-r.ended:
		if !errors.Is(err, errEnd) {
			t.Errorf("Run returned %v, want the context's cause", err)
		}
		if took := time.Since(begin); took > endsWithin {
			t.Errorf("Run took %v to return", took)
		}
	case <-time.After(patience):
		t.Fatal("Run does not return")
	}
	r.ended = nil
	// A goroutine that is left could still send.
	left := goleak.Find(r.ignored)
	for left != nil && time.Since(begin) < endsWithin { // a server in another process may be slow to close its side
		left = goleak.Find(r.ignored)
	}
	if left != nil {
		t.Errorf("goroutines are left: %v", left)
	}
	select {
	case _, open := <-r.sets:
		t.Errorf("after the end, the channel is open: %t, and has something to receive", open)
	default:
	}
	for i, pod := range r.sent {
		if !equality.Semantic.DeepEqual(pod, r.copies[i]) {
			t.Errorf("pod %s was changed after it was sent", pod.Name)
		}
	}
}

// next returns the next set, which must be valid.
func (r *running) next(t *testing.T) map[string]*v1.Pod {
	t.Helper()
	var set config.SourceSet
	select {
	case set = <-r.sets:
	case <-time.After(patience):
		t.Fatal("no set comes")
	}
	r.set = set
	if set.Origin == "" {
		t.Error("the set does not say where its pods were read")
	}
	pods, uids := make(map[string]*v1.Pod), make(map[string]bool)
	for _, pod := range set.Pods {
		name, _, _ := strings.Cut(pod.Name, "-")
		if pods[name] != nil {
			t.Errorf("two pods of name %s", pod.Name)
		}
		if pod.UID == "" || uids[string(pod.UID)] {
			t.Errorf("pod %s has no unique UID: %q", pod.Name, pod.UID)
		}
		if before := r.last[name]; before != nil && before != pod && equality.Semantic.DeepEqual(before, pod) {
			t.Errorf("pod %s did not change, and was sent as another pointer", pod.Name)
		}
		pods[name], uids[string(pod.UID)] = pod, true
		if !slices.Contains(r.sent, pod) {
			r.sent, r.copies = append(r.sent, pod), append(r.copies, pod.DeepCopy())
		}
	}
	r.last = pods
	return pods
}

// expect waits for the set "name=image name=image". Other sets may come before it,
// because a place may change in steps.
func (r *running) expect(t *testing.T, want string) {
	t.Helper()
	var got string
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		var all []string
		for name, pod := range r.next(t) {
			all = append(all, name+"="+pod.Spec.Containers[0].Image)
		}
		slices.Sort(all)
		if got = strings.Join(all, " "); got == want {
			return
		}
	}
	t.Fatalf("got %q, want %q", got, want)
}

// silent fails if a set comes.
func (r *running) silent(t *testing.T) {
	t.Helper()
	select {
	case set := <-r.sets:
		t.Errorf("%d pods were sent", len(set.Pods))
	case <-time.After(quiet):
	}
}

// degraded reports whether the source is degraded. It checks that the status has the
// reason and the time.
func (r *running) degraded(t *testing.T) bool {
	t.Helper()
	status := r.source.Status()
	if status.Degraded != (status.DegradedSince != nil) || status.Degraded != (status.LastError != "") {
		t.Errorf("the status says degraded %t, since %v, for %q", status.Degraded, status.DegradedSince, status.LastError)
	}
	if status.Name == "" {
		t.Error("the status does not name the source")
	}
	return status.Degraded
}

func (r *running) awaitDegraded(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for !r.degraded(t) {
		select {
		case set := <-r.sets:
			t.Errorf("%d pods were sent while unavailable", len(set.Pods))
		case <-deadline:
			t.Fatal("it does not say that it can't read")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func firstSetEmpty(t *testing.T, place Place) {
	r := start(t, place)
	if pods := r.next(t); len(pods) != 0 {
		t.Errorf("%d pods", len(pods))
	}
	r.silent(t)
}

func firstSetFull(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	place.Put(t, "b", "1")
	r := start(t, place)
	if pods := r.next(t); len(pods) != 2 {
		t.Errorf("%d pods", len(pods))
	}
	r.silent(t)
}

func changes(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	r := start(t, place)
	r.expect(t, "a=1")
	place.Put(t, "b", "1")
	r.expect(t, "a=1 b=1")
	place.Put(t, "a", "2")
	r.expect(t, "a=2 b=1")
	place.Remove(t, "a")
	r.expect(t, "b=1")
	place.Put(t, "a", "3")
	r.expect(t, "a=3 b=1")
	place.Remove(t, "a")
	place.Remove(t, "b")
	r.expect(t, "")
	r.silent(t)
}

func unavailable(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	place.Put(t, "b", "1")
	r := start(t, place)
	r.expect(t, "a=1 b=1")
	place.Break(t)
	r.awaitDegraded(t)
	r.silent(t)
	place.Mend(t)
	place.Put(t, "a", "2")
	r.expect(t, "a=2 b=1")
	for deadline := time.After(patience); r.degraded(t); { // the status may change after the set
		select {
		case <-deadline:
			t.Fatal("it still says that it can't read")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func unavailableFromTheStart(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	place.Break(t)
	r := start(t, place)
	r.awaitDegraded(t)
	r.silent(t)
	place.Mend(t)
	r.expect(t, "a=1")
}

func endsAtOnce(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	start(t, place).stopSource(t)
}

func endsIdle(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	r := start(t, place)
	r.expect(t, "a=1")
	r.silent(t)
	r.stopSource(t)
}

func endsUnread(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	r := start(t, place)
	<-time.After(quiet) // the first set waits for a receiver
	r.stopSource(t)
}

func endsUnreadChange(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	r := start(t, place)
	r.expect(t, "a=1")
	place.Put(t, "a", "2")
	<-time.After(quiet)
	r.stopSource(t)
}

func endsUnavailable(t *testing.T, place Place) {
	place.Put(t, "a", "1")
	r := start(t, place)
	r.expect(t, "a=1")
	place.Break(t)
	r.awaitDegraded(t)
	r.stopSource(t)
}
