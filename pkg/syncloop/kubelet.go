package syncloop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// KubeletStatuses has the statuses that the kubelet of the node gave its pods.
type KubeletStatuses interface {
	// Enabled reports whether the configuration has a Pods API of the kubelet. If that changes, Watch receives.
	Enabled() bool
	// Watch returns a channel that receives when Changed has pods, or Enabled has changed.
	Watch() <-chan struct{}
	// Changed returns the pods whose status may have changed since the last call.
	Changed() []types.UID
	// Status returns the last status that the kubelet gave a pod; nil if it gave none. live is false while the kubelet
	// is away.
	Status(uid types.UID) (status *v1.PodStatus, live bool)
}

// StatusBy says who made the status of a pod.
type StatusBy string

// The values of StatusBy.
const (
	// BySource: the pod came with it.
	BySource StatusBy = "source"
	// ByKubelet: the kubelet gives it. ByKubeletBefore: the kubelet gave it, and is away.
	ByKubelet       StatusBy = "kubelet"
	ByKubeletBefore StatusBy = "kubeletBefore"
	// ByMirrorPod: a kubelet wrote it to the mirror pod.
	ByMirrorPod StatusBy = "mirrorPod"
	// ByRuntime: it is computed from the state of the containers in the runtime.
	ByRuntime StatusBy = "runtime"
)

// fromKubelet returns the status that the kubelet gave a pod. It returns nil if the kubelet gave none. It also returns
// nil if the kubelet is away and its status no longer holds: then our own rules derive the next status from it.
func (s *statuses) fromKubelet(p *sourcePod) (*v1.PodStatus, StatusBy) {
	if !s.hasKubelet() {
		return nil, ""
	}
	record := s.records[p.pod.UID]
	status, live := s.Kubelet.Status(p.pod.UID)
	by := ByKubelet
	switch {
	case live && status != nil:
	case status == nil && s.ofKubelet(p):
		status, by = p.generated, ByKubeletBefore
	default:
		by = ByKubeletBefore
	}
	if status == nil || by == ByKubeletBefore && !s.stands(p, status, record) {
		return nil, ""
	}
	if p.source == config.ApiserverSource {
		status = new(podstatus.Merge(&p.pod.Status, status))
	} else {
		status = podstatus.WithAddresses(status, podstatus.Input{Pod: p.pod, Record: record, Previous: p.generated, Node: s.node})
	}
	p.generated = status
	return status, by
}

// ofKubelet reports whether the last status of a static pod has data that only a kubelet knows. So a kubelet gave it,
// before a restart of this process.
func (s *statuses) ofKubelet(p *sourcePod) bool {
	return s.hasKubelet() && p.generated != nil && p.source != config.ApiserverSource && podstatus.OnlyKubelet(p.pod, p.generated)
}

func (s *statuses) hasKubelet() bool { return s.Kubelet != nil && s.Kubelet.Enabled() }

// stands reports whether the last status that a kubelet gave still holds while the kubelet is away. For a pod of the
// apiserver, somebody else may have written a newer status there.
func (s *statuses) stands(p *sourcePod, status *v1.PodStatus, record *podstatus.Record) bool {
	if p.source == config.ApiserverSource {
		return podstatus.Compare(status, &p.pod.Status) == podstatus.Older
	}
	return podstatus.MatchesRuntime(status, record)
}

// kubeletNotices returns the channel of the kubelet's statuses.
func (s *statuses) kubeletNotices() <-chan struct{} {
	if s.Kubelet == nil {
		return nil
	}
	return s.Kubelet.Watch()
}

// takeKubelet takes the changes of the kubelet's statuses.
func (l *Loop) takeKubelet(ctx context.Context) {
	if has := l.statuses.hasKubelet(); has != l.statuses.had { // Changed does not have the pods that only a last run had from it
		l.statuses.had = has
		for uid := range l.pods.byUID {
			for _, p := range l.pods.all(uid) {
				l.statuses.renew(p)
			}
		}
	}
	for _, uid := range l.statuses.Kubelet.Changed() {
		if _, wanted := l.pods.get(uid); wanted {
			l.statuses.waiting[uid] = true
		}
	}
	l.reconcile(ctx)
}

// StatusBy returns who made the status of the pod with the UID, for each source that has one. The error is the
// cause of the context.
func (l *Loop) StatusBy(ctx context.Context, uid types.UID) (by map[string]string, err error) {
	err = l.calls.Do(ctx, func(context.Context) error {
		by = make(map[string]string)
		for _, p := range l.pods.all(uid) {
			by[p.source] = string(p.by)
		}
		return nil
	})
	return by, err
}
