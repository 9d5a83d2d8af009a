package podstatus

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Order is the order of two statuses of one pod. A status has no version, so only its times and counters show the order.
type Order int

// The orders.
const (
	// Unordered: there is evidence for neither order, or for both.
	Unordered Order = iota
	// Newer: the second status is newer.
	Newer
	// Older: the second status is older.
	Older
)

// Compare returns the order of two statuses from a kubelet.
func Compare(before, after *v1.PodStatus) Order {
	var e evidence
	e.times(before.StartTime, after.StartTime)
	e.weigh(int(after.ObservedGeneration - before.ObservedGeneration))
	for i := range after.Conditions {
		c := &after.Conditions[i]
		if old := findCondition(before.Conditions, c.Type); old != nil {
			e.times(&old.LastTransitionTime, &c.LastTransitionTime)
		}
	}
	for _, list := range [][2][]v1.ContainerStatus{
		{before.InitContainerStatuses, after.InitContainerStatuses},
		{before.ContainerStatuses, after.ContainerStatuses},
		{before.EphemeralContainerStatuses, after.EphemeralContainerStatuses},
	} {
		for i := range list[1] {
			if old := findStatus(list[0], list[1][i].Name); old != nil {
				e.container(old, &list[1][i])
			}
		}
	}
	switch {
	case e.newer && !e.older:
		return Newer
	case e.older && !e.newer:
		return Older
	}
	return Unordered
}

// evidence says whether something shows each order.
type evidence struct{ newer, older bool }

// weigh adds evidence: positive for Newer, negative for Older.
func (e *evidence) weigh(sign int) {
	e.newer = e.newer || sign > 0
	e.older = e.older || sign < 0
}

// times compares two times, which have a resolution of one second. A missing time is no evidence.
func (e *evidence) times(before, after *metav1.Time) {
	if !before.IsZero() && !after.IsZero() {
		e.weigh(after.Compare(before.Time))
	}
}

// container compares how far the life of a container is: it restarts, and each attempt waits, runs and ends.
func (e *evidence) container(before, after *v1.ContainerStatus) {
	switch {
	case before.RestartCount != after.RestartCount:
		e.weigh(int(after.RestartCount - before.RestartCount))
	case before.ContainerID == after.ContainerID:
		e.weigh(stage(after) - stage(before))
	case before.LastTerminationState.Terminated != nil || after.LastTerminationState.Terminated != nil:
		// A missing ID shows nothing: an attempt that is gone has none either.
	case before.ContainerID == "":
		e.weigh(1) // its first attempt
	case after.ContainerID == "":
		e.weigh(-1)
	}
}

// stage returns how far an attempt of a container is: 0 if it waits, 1 if it runs, 2 if it has ended. The state of an ended
// attempt is terminated, or waiting for the next attempt. A kubelet that restarts sets it back from waiting to terminated.
func stage(c *v1.ContainerStatus) int {
	switch last := c.LastTerminationState.Terminated; {
	case c.State.Running != nil:
		return 1
	case c.State.Terminated != nil:
		return 2
	case c.State.Waiting != nil && last != nil && last.ContainerID == c.ContainerID && c.ContainerID != "":
		return 2
	}
	return 0
}
