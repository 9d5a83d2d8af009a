package export

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// resume starts the command at a revision.
func resume(t *testing.T, d *daemon, revision int64, change func(*Options)) (got chan string) {
	t.Helper()
	address, got := collect(t)
	o := &Options{collectorFlags: collectorFlags{address: "http://" + address}, stateFile: filepath.Join(t.TempDir(), "position")}
	if change != nil {
		change(o)
	}
	if err := (position{"i", revision}).store(o.stateFile); err != nil {
		t.Fatal(err)
	}
	start(t, d, o)
	return got
}

func wantAsked(t *testing.T, d *daemon, want ...string) {
	t.Helper()
	for _, revision := range want {
		if asked := <-d.asked; asked != revision {
			t.Errorf("the stream is requested from %q, want %q", asked, revision)
		}
	}
}

// In the stream, all pods of an update have its revision, and in the history each has its own. A record has that of the update, so that
// it is the same from both. The position is the pod's own.
func TestARecordOfTheHistoryHasTheRevisionOfTheUpdate(t *testing.T) {
	history := []*v1alpha1.HistoryRecord{record(3, v1alpha1.OpAdd, "z"), record(5, v1alpha1.OpAdd, "a"), record(6, v1alpha1.OpAdd, "b"), record(7, v1alpha1.OpAdd, "c")}
	history[1].UpdateRevision, history[2].UpdateRevision = 7, 7
	for from, records := range map[int64][]string{
		4: {"pod.add a 7", "pod.add b 7", "pod.add c 7", "pod.add d 9"},
		5: {"pod.add b 7", "pod.add c 7", "pod.add d 9"},
	} {
		d := serveDaemon(t, history, []*v1alpha1.Update{reset("too old")}, []*v1alpha1.Update{update(9, v1alpha1.OpAdd, "d")})
		want(t, resume(t, d, from, nil), records...)
	}
	// A position between the pods of an update can be stored.
	e := &exporter{Options: &Options{body: "none"}, metrics: newMetrics(nil)}
	e.client = clientOf(t, serveDaemon(t, history, nil))
	var reached []int64
	if _, _, err := e.changes(t.Context(), position{"i", 4}, "i", new(e.Stream()), "", func(i item) bool {
		if i.reached.Revision != 0 {
			reached = append(reached, i.reached.Revision)
		}
		return true
	}); err != nil || !slices.Equal(reached, []int64{5, 6, 7}) {
		t.Errorf("the positions are %v, %v", reached, err)
	}
}

// The client forgets its position at a reset. If the stream ends before the current pods, it is opened again from the position of the
// command: nothing is missing.
func TestAStreamThatEndsAfterAResetIsNoGap(t *testing.T) {
	d := serveDaemon(t, []*v1alpha1.HistoryRecord{record(3, v1alpha1.OpAdd, "a")},
		[]*v1alpha1.Update{reset("too old"), update(0, v1alpha1.OpAdd, "a")},
		[]*v1alpha1.Update{update(0, v1alpha1.OpAdd, "a"), synced(8)}, []*v1alpha1.Update{update(9, v1alpha1.OpAdd, "b")})
	want(t, resume(t, d, 4, nil), "pod.add b 9")
	wantAsked(t, d, "4", "", "4")
}

// After a restart of the daemon, all subscribers come back at once. A refusal that may pass does not end the command.
func TestATemporaryRefusal(t *testing.T) {
	d := serveDaemon(t, []*v1alpha1.HistoryRecord{record(3, v1alpha1.OpAdd, "a"), record(5, v1alpha1.OpUpdate, "a")},
		[]*v1alpha1.Update{reset("too old")}, []*v1alpha1.Update{nil}, []*v1alpha1.Update{update(9, v1alpha1.OpAdd, "b")})
	want(t, resume(t, d, 4, nil), "pod.update a 5", "pod.add b 9")
	wantAsked(t, d, "4", "5", "5")
}

// A file of the history can be damaged before the position. What is behind the damage is missing.
func TestAHistoryThatIsDamagedBeforeThePositionIsAGap(t *testing.T) {
	d := serveDaemon(t, []*v1alpha1.HistoryRecord{record(2, v1alpha1.OpAdd, "a"), {Instance: "i", Revision: 2, Gap: "damaged"}},
		[]*v1alpha1.Update{reset("too old"), update(0, v1alpha1.OpAdd, "z"), synced(8), update(9, v1alpha1.OpAdd, "b")}, nil)
	want(t, resume(t, d, 4, nil), "gap 4 changes after revision 4 can be missing: too old", "pod.add z", "pod.add b 9")
}

// The history does not have what these select, or what they would have selected then.
func TestWhatTheHistoryCanNotSelectIsAGap(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		reset  string
	}{
		"an owner, which is not known any more": {func(o *Options) { o.Owner = "deployment/web" }, "too old"},
		"an operation that is not stored":       {func(o *Options) { o.Ops = []v1alpha1.Op{v1alpha1.OpAdd, v1alpha1.OpPLEG} }, "too old"},
		"all operations":                        {func(o *Options) { o.Ops = []v1alpha1.Op{v1alpha1.OpAll} }, "too old"},
		"pods that are visible since":           {nil, "the access rules changed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := serveDaemon(t, []*v1alpha1.HistoryRecord{record(4, v1alpha1.OpAdd, "c")},
				[]*v1alpha1.Update{reset(test.reset), update(0, v1alpha1.OpAdd, "z"), synced(8), update(9, v1alpha1.OpAdd, "b")}, nil)
			want(t, resume(t, d, 4, test.change), "gap 4 changes after revision 4 can be missing: "+test.reset, "pod.add z", "pod.add b 9")
		})
	}
}
