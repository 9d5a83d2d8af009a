package syncloop

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// podManager stores the current pods, from the updates that the loop dispatched. Only the
// goroutine of the loop uses it.
//
// kubelet: pkg/kubelet/pod Manager.
type podManager struct {
	byUID map[types.UID][]*sourcePod
	// mirrors are the mirror pods in the apiserver, and statics the static pods, by name.
	mirrors map[types.NamespacedName]*v1.Pod
	statics map[types.NamespacedName][]types.UID
}

// sourcePod is a pod of a source. Several sources may have a pod with the same UID.
type sourcePod struct {
	source string
	pod    *v1.Pod
	file   *config.File
	// status is the status that is shown instead of the pod's own, or nil. generated is the
	// last status that was computed, even if the status in the mirror pod is shown.
	status, generated *v1.PodStatus
	// before is the last generated status before the runtime lacked a container that ran; nil otherwise.
	before *v1.PodStatus
	// by says who made the status.
	by StatusBy
	// panicked is true if the last computation of the status panicked.
	panicked bool
}

func newPodManager() *podManager {
	return &podManager{
		byUID: make(map[types.UID][]*sourcePod), mirrors: make(map[types.NamespacedName]*v1.Pod),
		statics: make(map[types.NamespacedName][]types.UID),
	}
}

// applyUpdate applies an update of the config. It returns the static pods whose mirror pods are in
// the update.
func (m *podManager) applyUpdate(u config.PodUpdate) (mirrored []types.UID) {
	for n, pod := range u.Pods {
		mirrored = append(mirrored, m.index(u, pod)...)
		pods := m.byUID[pod.UID]
		i, there := find(pods, u.Source)
		switch {
		case u.Op == config.REMOVE && there:
			if pods = slices.Delete(pods, i, i+1); len(pods) == 0 {
				delete(m.byUID, pod.UID)
				continue
			}
		case u.Op == config.REMOVE:
			continue
		default:
			if !there {
				pods = slices.Insert(pods, i, &sourcePod{source: u.Source})
			}
			pods[i].pod, pods[i].file = pod, nil
			if u.Files != nil {
				pods[i].file = u.Files[n]
			}
			if u.Statuses != nil {
				pods[i].status, pods[i].generated = u.Statuses[n], u.Statuses[n]
			}
		}
		m.byUID[pod.UID] = pods
	}
	return mirrored
}

// index updates the mirror pods and the static pods. It returns the static pods of a mirror
// pod.
func (m *podManager) index(u config.PodUpdate, pod *v1.Pod) (mirrored []types.UID) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if u.Source != config.ApiserverSource {
		uids := slices.DeleteFunc(m.statics[name], func(uid types.UID) bool { return uid == pod.UID })
		if u.Op != config.REMOVE || m.elsewhere(u.Source, pod.UID) {
			uids = append(uids, pod.UID)
		}
		if m.statics[name] = uids; len(uids) == 0 {
			delete(m.statics, name)
		}
		return nil
	}
	switch {
	case !config.IsMirrorPod(pod):
		return nil
	case u.Op != config.REMOVE:
		m.mirrors[name] = pod
	case m.mirrors[name] != nil && m.mirrors[name].UID == pod.UID:
		delete(m.mirrors, name)
	}
	return m.statics[name]
}

// elsewhere reports whether another source of static pods has the UID.
func (m *podManager) elsewhere(source string, uid types.UID) bool {
	return slices.ContainsFunc(m.byUID[uid], func(p *sourcePod) bool {
		return p.source != source && p.source != config.ApiserverSource
	})
}

func find(pods []*sourcePod, source string) (int, bool) {
	return slices.BinarySearchFunc(pods, source, func(p *sourcePod, source string) int { return cmp.Compare(p.source, source) })
}

// podOf returns the pod of a source, or nil.
func (m *podManager) podOf(source string, uid types.UID) *sourcePod {
	pods := m.byUID[uid]
	if i, there := find(pods, source); there {
		return pods[i]
	}
	return nil
}

// all returns the pods with that UID, ordered by source.
func (m *podManager) all(uid types.UID) []*sourcePod { return m.byUID[uid] }

// mirror returns the mirror pod with the name of the pod, or nil.
func (m *podManager) mirror(pod *v1.Pod) *v1.Pod {
	return m.mirrors[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
}

// get returns the pod with that UID from the first source that has one.
func (m *podManager) get(uid types.UID) (*v1.Pod, bool) {
	if pods := m.byUID[uid]; len(pods) > 0 {
		return pods[0].pod, true
	}
	return nil, false
}

// named returns the pods with that name, ordered by source. Each source may have one.
func (m *podManager) named(namespace, name string) []*v1.Pod {
	var found []*sourcePod
	for _, pods := range m.byUID {
		for _, p := range pods {
			if p.pod.Namespace == namespace && p.pod.Name == name {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b *sourcePod) int {
		return cmp.Or(cmp.Compare(a.source, b.source), config.ComparePods(a.pod, b.pod))
	})
	pods := make([]*v1.Pod, len(found))
	for i, p := range found {
		pods[i] = p.pod
	}
	return pods
}

// prepareUpdate prepares an update of the config: it records the pods, requests their state in the
// runtime, and adds their statuses.
func (l *Loop) prepareUpdate(ctx context.Context, u config.PodUpdate) config.PodUpdate {
	mirrored := l.pods.applyUpdate(u)
	l.showMirrorPods(u)
	if !l.statuses.enabled() {
		return u
	}
	l.followKubelet() // the set may have the UIDs of another one
	for _, pod := range u.Pods {
		if _, wanted := l.pods.get(pod.UID); !wanted {
			l.statuses.forget(pod.UID)
		} else if l.statuses.records[pod.UID] == nil {
			l.seekNew(pod.UID)
		}
	}
	if u.Op != config.REMOVE {
		u = l.withStatuses(ctx, u)
	}
	for _, uid := range mirrored {
		l.statuses.waiting[uid] = true
	}
	return u
}

// showMirrorPods shows the mirror pods of an update to the kubelet.
func (l *Loop) showMirrorPods(u config.PodUpdate) {
	if l.kubelet == nil || u.Source != config.ApiserverSource {
		return
	}
	for _, pod := range u.Pods {
		if config.IsMirrorPod(pod) {
			l.kubelet.MirrorPod(pod, u.Op == config.REMOVE)
		}
	}
}

// withStatuses returns the update with the statuses of its pods, which the pod manager has
// already.
func (l *Loop) withStatuses(ctx context.Context, u config.PodUpdate) config.PodUpdate {
	for i, pod := range u.Pods {
		p := l.pods.podOf(u.Source, pod.UID)
		if p == nil || p.pod != pod {
			continue // the source has the UID twice
		}
		if p.status = l.statuses.statusFor(ctx, p, l.pods.mirror(pod)); p.status == nil {
			continue
		}
		if u.Statuses == nil {
			u.Statuses = make([]*v1.PodStatus, len(u.Pods))
		}
		u.Statuses[i] = p.status
	}
	return u
}

// seekNew requests the record of a pod in an update. If the runtime does not have the pod, the
// record is empty, and known at once, so that the update has the status.
func (l *Loop) seekNew(uid types.UID) {
	if pod, listed := l.pleg.Pod(uid); listed && pod == nil && l.statuses.Records != nil {
		l.statuses.records[uid] = new(podstatus.Record)
		l.statuses.waiting[uid] = true
		return
	}
	l.seek(uid)
}

// seek requests the record of a pod.
func (l *Loop) seek(uid types.UID) {
	if l.statuses.Records == nil || !slices.ContainsFunc(l.pods.all(uid), l.statuses.covers) {
		return
	}
	l.statuses.Records.Request(uid)
}
