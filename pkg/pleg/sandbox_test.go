package pleg

import (
	"slices"
	"testing"
	"time"
)

// A sandbox that is not ready may become ready again. A list that was requested before it
// was not ready does not prove that.
func TestASandboxIsReadyAgain(t *testing.T) {
	r := newRecords()
	start := time.Unix(1e9, 0)
	list := func(state State, sandbox bool, at time.Duration, want ...PodLifeCycleEventType) {
		t.Helper()
		pod := &Pod{UID: "a", Name: "a", Containers: []Container{{ID: "s", Sandbox: sandbox, State: state}}}
		listed := start.Add(at)
		var got []PodLifeCycleEventType
		for _, e := range r.apply("a", pod, r.compare("a", pod, listed), listed) {
			got = append(got, e.Type)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, %v: got %v, want %v", at, state, got, want)
		}
	}
	list(StateRunning, true, 0, ContainerStarted)
	list(StateExited, true, 2*time.Second, ContainerDied)
	list(StateRunning, true, time.Second) // requested before
	list(StateRunning, true, 3*time.Second, ContainerStarted)
	list(StateExited, true, 4*time.Second, ContainerDied)

	r = newRecords()
	list(StateExited, false, 0, ContainerDied)
	list(StateRunning, false, time.Second) // a container never returns
}
