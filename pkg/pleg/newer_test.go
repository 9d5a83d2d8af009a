package pleg

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// report is a list, or an event if stray is set, and the types of the events that it emits.
type report struct {
	// at is when the list was requested, or when the event arrived, in milliseconds.
	at int
	// in is the pod that has the container, and state is its state; StateNone for a list without the container.
	in    types.UID
	state State
	stray bool
	want  []PodLifeCycleEventType
}

// A list wins against everything that was recorded before it was requested, whatever the record says. A list that was
// requested before does not.
func TestANewerListWins(t *testing.T) {
	died := []PodLifeCycleEventType{ContainerDied}
	started := []PodLifeCycleEventType{ContainerStarted}
	removed := []PodLifeCycleEventType{ContainerDied, ContainerRemoved}
	tests := map[string]struct {
		reports []report
		pod     types.UID // that has the container in the end; empty for none
		state   State
	}{
		"one list lacks it": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateNone, false, removed}, {2, "a", StateRunning, false, started},
		}, "a", StateRunning},
		"the list before the removal has it": {[]report{
			{0, "a", StateRunning, false, started}, {2, "a", StateNone, false, removed}, {1, "a", StateRunning, false, nil},
		}, "", StateNone},
		"the list at the time of the removal has it": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateNone, false, removed}, {1, "a", StateRunning, false, nil},
		}, "", StateNone},
		"an event removes it, and the runtime has it": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateNone, true, removed}, {2, "a", StateRunning, false, started},
		}, "a", StateRunning},
		"an event stops it, and it runs": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateExited, true, died}, {2, "a", StateRunning, false, started},
		}, "a", StateRunning},
		"the list before the event has it running": {[]report{
			{0, "a", StateRunning, false, started}, {2, "a", StateExited, true, died}, {1, "a", StateRunning, false, nil},
		}, "a", StateExited},
		"an event removes what no list had, and then one has it": {[]report{
			{1, "a", StateNone, true, nil}, {0, "a", StateRunning, false, nil}, {2, "a", StateRunning, false, started},
		}, "a", StateRunning},
		"another pod has the ID": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateNone, false, removed}, {2, "b", StateRunning, false, started},
		}, "b", StateRunning},
		"another pod has the ID before the first lacks it": {[]report{
			{0, "a", StateRunning, false, started}, {1, "b", StateRunning, false, started}, {1, "a", StateNone, false, removed},
		}, "b", StateRunning},
		"gone twice": {[]report{
			{0, "a", StateRunning, false, started}, {1, "a", StateNone, false, removed}, {2, "a", StateRunning, false, started}, {3, "a", StateNone, false, removed},
		}, "", StateNone},
		"it runs again under its ID": {[]report{
			{0, "a", StateExited, false, died}, {1, "a", StateRunning, false, started}, {2, "a", StateExited, false, died},
		}, "a", StateExited},
	}
	for name, test := range tests {
		for _, sandbox := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sandbox %t", name, sandbox), func(t *testing.T) {
				g := New(Options{})
				start := time.Now().Add(-time.Second)
				first := follow(g)
				for i, r := range test.reports {
					if got := g.records.tell(r, start, sandbox); !slices.Equal(got, r.want) {
						t.Errorf("report %d: emitted %v, want %v", i, got, r.want)
					}
					first.compare(t, g)
					follow(g).compare(t, g)
				}
				found, known := g.FindContainer("c")
				has := known && found.Ended.IsZero()
				if has != (test.pod != "") || has && (found.UID != test.pod || found.Container.State != test.state) {
					t.Errorf("found %+v, %t; want it in pod %q, %v", found, known, test.pod, test.state)
				}
				if pod, known := g.FindPod(test.pod); test.pod != "" && (!known || !pod.Ended.IsZero()) {
					t.Errorf("found pod %+v, %t", pod, known)
				}
			})
		}
	}
}

// tell applies a report on the container c, and returns the types of the emitted events.
func (r *records) tell(report report, start time.Time, sandbox bool) (kinds []PodLifeCycleEventType) {
	at := start.Add(time.Duration(report.at) * time.Millisecond)
	pod := &Pod{UID: report.in, Name: string(report.in)}
	if report.state != StateNone {
		pod.Containers = []Container{{ID: "c", Sandbox: sandbox, State: report.state, ExitCode: new(int32(0))}}
	}
	var events []*PodLifecycleEvent
	switch kind := map[State]RuntimeEventType{StateExited: EventStopped, StateNone: EventDeleted}[report.state]; {
	case report.stray:
		events, _ = r.applyEvent(RuntimeEvent{Type: kind, ContainerID: "c", Pod: pod}, at)
	default:
		events = r.apply(report.in, pod, r.compare(report.in, pod, at), at)
	}
	for _, e := range events {
		kinds = append(kinds, e.Type)
	}
	return kinds
}
