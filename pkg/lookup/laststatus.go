package lookup

import (
	"hash/maphash"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// reduce returns a pod with the fields that answers have, without its name and UID. owners keeps the reference to its controller.
func reduce(pod *v1.Pod, owners bool) *v1.Pod {
	reduced := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels},
		Spec:       v1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs, StartTime: pod.Status.StartTime,
			Reason: pod.Status.Reason,
		},
	}
	if c := metav1.GetControllerOfNoCopy(pod); owners && c != nil {
		reduced.OwnerReferences = []metav1.OwnerReference{*c}
	}
	for _, key := range []string{v1.MirrorPodAnnotationKey, networkStatus} {
		if value, ok := pod.Annotations[key]; ok && len(value) <= maxEndedPod {
			metav1.SetMetaDataAnnotation(&reduced.ObjectMeta, key, value)
		}
	}
	// Answers do not tell apart the three kinds.
	for _, s := range containerStatuses(&pod.Status) {
		reduced.Status.ContainerStatuses = append(reduced.Status.ContainerStatuses, v1.ContainerStatus{
			Name: s.Name, ContainerID: s.ContainerID, RestartCount: s.RestartCount,
			State:                v1.ContainerState{Running: s.State.Running, Terminated: terminated(s.State.Terminated)},
			LastTerminationState: v1.ContainerState{Terminated: terminated(s.LastTerminationState.Terminated)},
		})
	}
	return reduced
}

// terminated returns the state of a container without its message, which can be long.
func terminated(t *v1.ContainerStateTerminated) *v1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	short := *t
	short.Message = ""
	return &short
}

func containerStatuses(status *v1.PodStatus) []v1.ContainerStatus {
	return slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses)
}

// containerIDs returns the IDs of the containers that a status has, without the name of the runtime.
func containerIDs(status *v1.PodStatus) (ids []string) {
	for _, s := range containerStatuses(status) {
		if s.ContainerID != "" {
			ids = append(ids, bare(s.ContainerID))
		}
		if t := s.LastTerminationState.Terminated; t != nil && t.ContainerID != "" {
			ids = append(ids, bare(t.ContainerID))
		}
	}
	return ids
}

// lastAndPrevious returns the statuses of containers, and those of the containers that each has replaced.
func lastAndPrevious(status *v1.PodStatus) []v1.ContainerStatus {
	all := containerStatuses(status)
	for _, s := range all {
		if t := s.LastTerminationState.Terminated; t != nil && t.ContainerID != "" {
			s.RestartCount, s.ContainerID, s.State = max(0, s.RestartCount-1), t.ContainerID, s.LastTerminationState
			all = append(all, s)
		}
	}
	return all
}

// lastState returns a container as the last status of its pod has it, if the pod ended; otherwise nil. uids are those by which the
// pod is known: the one that the cgroup names, or else those of the pod that ended, and first that of the static pod if it is a
// mirror pod. A container of another pod than the cgroup names does not count: the client may not see that pod.
func (p *pods) lastState(c CgroupContainer) (last *v1alpha1.LookupContainer, uids []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncLocked()
	e := p.ended.byContainer[maphash.String(p.ended.seed, c.ID)]
	if e != nil && (c.PodUID == "" || c.PodUID == e.uid || e.mirror && c.PodUID == e.static) {
		for _, s := range lastAndPrevious(&e.object().Status) {
			if bare(s.ContainerID) != c.ID {
				continue
			}
			if e.mirror && p.isNamed(e.static, e.name) {
				uids = append(uids, e.static)
			}
			return lastOf(&s), append(uids, e.uid)
		}
	}
	if c.PodUID != "" {
		uids = append(uids, c.PodUID)
	}
	return nil, uids
}

// isNamed reports whether a source has, or had, a pod with a UID and a name.
func (p *pods) isNamed(uid types.UID, name string) bool {
	if pod := p.byUID[uid]; pod != nil {
		return nameOf(pod) == name
	}
	e := p.ended.ofUID(uid)
	return e != nil && e.name == name
}

// lastOfLog returns the container of a log as the last status of a pod that ended has it; nil if there is none.
func (p *pods) lastOfLog(log *logFile) *v1alpha1.LookupContainer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range []*endedPod{p.ended.ofUID(log.uid), p.ended.mirrorOf(log.uid, log.pod.String())} {
		if e == nil {
			continue
		}
		for _, s := range lastAndPrevious(&e.object().Status) {
			if s.Name == log.container && int(s.RestartCount) == log.restarts && s.ContainerID != "" {
				return lastOf(&s)
			}
		}
	}
	return nil
}

func lastOf(s *v1.ContainerStatus) *v1alpha1.LookupContainer {
	c := &v1alpha1.LookupContainer{ID: bare(s.ContainerID), Name: s.Name, Restarts: int(s.RestartCount), State: pleg.StateUnknown.String()}
	switch t, r := s.State.Terminated, s.State.Running; {
	case t != nil:
		c.State, c.ExitCode = pleg.StateExited.String(), &t.ExitCode
		if !t.StartedAt.IsZero() {
			c.Started = &t.StartedAt.Time
		}
		if !t.FinishedAt.IsZero() {
			c.Ended = &t.FinishedAt.Time
		}
	case r != nil && !r.StartedAt.IsZero():
		c.Started = &r.StartedAt.Time
	}
	return c
}
