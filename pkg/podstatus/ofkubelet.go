package podstatus

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// MatchesRuntime reports whether a status from a kubelet still agrees with the runtime: each container is the same attempt in
// the same state. If so, what only the kubelet knew is still valid, such as the results of probes. A nil record agrees with any
// status.
func MatchesRuntime(status *v1.PodStatus, record *Record) bool {
	if record == nil {
		return true
	}
	r := newRuntimeStatus(record)
	known := 0
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			newest := r.find(list[i].Name)
			if newest == nil {
				// The runtime can remove an attempt that ended, but none that runs.
				if list[i].State.Running != nil {
					return false
				}
				continue
			}
			known++
			if !isAttempt(&list[i], newest) {
				return false
			}
		}
	}
	names := make(map[string]bool, known)
	for _, c := range r.containers {
		names[containerName(c)] = true
	}
	return len(names) == known
}

// Lacks reports whether the record lacks every attempt of a container that runs by the status.
func Lacks(status *v1.PodStatus, record *Record) bool {
	if record == nil {
		return false
	}
	r := newRuntimeStatus(record)
	return slices.ContainsFunc(slices.Concat(status.InitContainerStatuses, status.ContainerStatuses), func(c v1.ContainerStatus) bool {
		return c.State.Running != nil && r.find(c.Name) == nil
	})
}

// isAttempt reports whether the status of a container describes an attempt in its present state.
func isAttempt(status *v1.ContainerStatus, attempt *runtimeapi.ContainerStatus) bool {
	if !strings.HasSuffix(status.ContainerID, "://"+attempt.GetId()) {
		return false
	}
	switch attempt.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return status.State.Running != nil
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return stage(status) == 2
	}
	return stage(status) != 1
}

// NewerThanRuntime reports whether a status from a kubelet is newer than what the runtime reported last: a container has ended,
// or a newer attempt of it has started. An attempt that the record does not have is newer if it has both a higher restart count
// and a later start than the newest attempt in the record.
func NewerThanRuntime(status *v1.PodStatus, record *Record) bool {
	r := newRuntimeStatus(record)
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			if newest := r.find(list[i].Name); newest != nil && isNewer(&list[i], newest) {
				return true
			}
		}
	}
	return false
}

// isNewer reports whether the status of a container is newer than its newest attempt in the runtime.
func isNewer(status *v1.ContainerStatus, attempt *runtimeapi.ContainerStatus) bool {
	if strings.HasSuffix(status.ContainerID, "://"+attempt.GetId()) {
		return attempt.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && stage(status) == 2
	}
	var started metav1.Time
	switch last := status.LastTerminationState.Terminated; {
	case status.State.Running != nil:
		started = status.State.Running.StartedAt
	case status.State.Terminated != nil:
		started = status.State.Terminated.StartedAt
	case stage(status) == 2:
		started = last.StartedAt
	}
	return status.RestartCount > restartCount(attempt) && started.Unix() >= time.Unix(0, attempt.GetCreatedAt()).Unix()
}

// OnlyKubelet reports whether the status of a pod has something that only a kubelet knows: the result of a probe, why a
// container waits, or why the pod failed. Generate can't find that out.
func OnlyKubelet(pod *v1.Pod, status *v1.PodStatus) bool {
	if status.Reason != "" && status.Reason != pod.Status.Reason {
		return true
	}
	for container := range initAndRegular(&pod.Spec) {
		c := findStatus(status.ContainerStatuses, container.Name)
		if c == nil {
			c = findStatus(status.InitContainerStatuses, container.Name)
		}
		switch {
		case c == nil:
		case c.State.Running != nil:
			ready, started := container.ReadinessProbe != nil && c.Ready, container.StartupProbe != nil && c.Started != nil && *c.Started
			if ready || started {
				return true
			}
		case c.State.Waiting != nil:
			switch c.State.Waiting.Reason {
			case "", containerCreating, podInitializing, restartingAllContainers:
			default:
				return true
			}
		}
	}
	return false
}

// WithAddresses adds the addresses to a status from a kubelet. A kubelet without an apiserver leaves them empty. If there is
// nothing to add, WithAddresses returns the same pointer.
//
// kubelet: pkg/kubelet/kubelet_pods.go generateAPIPodStatus, which sets them only if it has an apiserver.
func WithAddresses(status *v1.PodStatus, in Input) *v1.PodStatus {
	rejected := status.Phase == v1.PodFailed && len(status.ContainerStatuses) == 0
	if status.HostIP != "" || rejected || len(in.Node.IPs) == 0 {
		return status
	}
	with := *status
	setHostIPs(&with, in.Node.IPs)
	if with.PodIP == "" && in.Record != nil {
		g := generator{pod: in.Pod, runtime: newRuntimeStatus(in.Record), old: &v1.PodStatus{}, node: in.Node, in: in}
		if in.Previous != nil {
			g.old = in.Previous
		}
		with.PodIPs = nil
		setPodIPs(&with, sortPodIPs(g.podIPs(), in.Node.IPs))
	}
	if in.Pod.Spec.HostNetwork {
		with.PodIPs = slices.Clone(with.PodIPs)
		setHostNetworkPodIPs(&with, in.Node.IPs)
	}
	return &with
}

// Merge returns the status from a kubelet, with the fields and conditions that others wrote in the apiserver.
//
// kubelet: pkg/kubelet/status/status_manager.go mergePodStatus, and updateStatusInternal for the health of volumes.
func Merge(apiserver, kubelet *v1.PodStatus) v1.PodStatus {
	merged := *kubelet
	merged.Conditions = mergeConditions(apiserver.Conditions, kubelet.Conditions)
	merged.NominatedNodeName = apiserver.NominatedNodeName
	merged.ResourceClaimStatuses = apiserver.ResourceClaimStatuses
	merged.ExtendedResourceClaimStatus = apiserver.ExtendedResourceClaimStatus
	merged.NodeAllocatableResourceClaimStatuses = apiserver.NodeAllocatableResourceClaimStatuses
	if len(merged.VolumeHealth) == 0 { // only its volume manager sets it, so most of its statuses do not have it
		merged.VolumeHealth = apiserver.VolumeHealth
	}
	if merged.QOSClass == "" {
		merged.QOSClass = apiserver.QOSClass
	}
	return merged
}

// mergeConditions replaces the conditions that a kubelet writes, and keeps the order.
func mergeConditions(apiserver, kubelet []v1.PodCondition) (merged []v1.PodCondition) {
	for i := range apiserver {
		if !isOwnedByKubelet(apiserver[i].Type) {
			merged = append(merged, apiserver[i])
		} else if c := findCondition(kubelet, apiserver[i].Type); c != nil {
			merged = append(merged, *c)
		}
	}
	for i := range kubelet {
		if isOwnedByKubelet(kubelet[i].Type) && findCondition(apiserver, kubelet[i].Type) == nil {
			merged = append(merged, kubelet[i])
		}
	}
	return merged
}

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
