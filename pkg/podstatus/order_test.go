package podstatus

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompare compares what a kubelet says of a pod in turn. Each status is newer than the one before, as far as it shows.
func TestCompare(t *testing.T) {
	at := func(second int64) *metav1.Time { return new(metav1.NewTime(time.Unix(second, 0))) }
	status := func(container v1.ContainerStatus, ready int64) *v1.PodStatus {
		container.Name = "c"
		return &v1.PodStatus{
			StartTime: at(1), Conditions: []v1.PodCondition{{Type: v1.PodReady, LastTransitionTime: *at(ready)}},
			ContainerStatuses: []v1.ContainerStatus{container},
		}
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	life := []*v1.PodStatus{
		{ObservedGeneration: 1},
		status(v1.ContainerStatus{State: waiting}, 1),
		status(v1.ContainerStatus{ContainerID: "a", State: running}, 1),
		status(v1.ContainerStatus{ContainerID: "a", State: running}, 2),
		status(v1.ContainerStatus{ContainerID: "a", State: ended("a")}, 2),
		status(v1.ContainerStatus{ContainerID: "b", State: running, RestartCount: 1}, 2),
		status(v1.ContainerStatus{ContainerID: "b", State: running, RestartCount: 1}, 3),
	}
	for i := 1; i < len(life); i++ {
		for k := i + 1; k < len(life); k++ {
			if got := Compare(life[i], life[k]); got != Newer {
				t.Errorf("%d and %d: %v", i, k, got)
			}
			if got := Compare(life[k], life[i]); got != Older {
				t.Errorf("%d and %d: %v", k, i, got)
			}
		}
		if got := Compare(life[i], life[i]); got != Unordered {
			t.Errorf("%d with itself: %v", i, got)
		}
	}
	// A kubelet can forget why a container waits, and an attempt that is gone has no ID.
	waits := status(v1.ContainerStatus{ContainerID: "a", State: waiting, LastTerminationState: ended("a")}, 2)
	gone := status(v1.ContainerStatus{State: waiting, LastTerminationState: ended("")}, 2)
	for _, other := range []*v1.PodStatus{waits, gone} {
		if a, b := Compare(life[4], other), Compare(other, life[4]); a != Unordered || b != Unordered {
			t.Errorf("an attempt that ended: %v, %v", a, b)
		}
	}
	// Evidence for both.
	if got := Compare(life[6], status(v1.ContainerStatus{ContainerID: "c", State: running, RestartCount: 2}, 1)); got != Unordered {
		t.Errorf("%v", got)
	}
	if got := Compare(life[0], &v1.PodStatus{ObservedGeneration: 2}); got != Newer {
		t.Errorf("of a newer spec: %v", got)
	}
	if got := Compare(life[6], &v1.PodStatus{StartTime: at(9)}); got != Newer {
		t.Errorf("after a restart: %v", got)
	}
}
