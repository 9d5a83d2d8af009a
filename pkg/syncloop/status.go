package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// Recorder reads the records of pods from the runtime.
type Recorder interface {
	// Request requests the record of a pod. It does not block.
	Request(uid types.UID)
	// Forget forgets a pod that no source has any more.
	Forget(uid types.UID)
	// Watch returns the channel of records.
	Watch() <-chan podstatus.Reading
}

// StatusOptions configures the status that the loop shows of pods.
type StatusOptions struct {
	// Sources are the kinds of the sources whose pods get a status. Of the apiserver, only pods without a
	// status from a kubelet get one. Without sources, every pod keeps the status that its
	// source gave it.
	Sources []string
	// NodeIPs returns the addresses of the node: one, or one of each IP family. nil for none.
	NodeIPs func() []string
	// Minor returns the minor version of the kubelet whose rules apply. nil for the newest.
	Minor func() int
	// Recorder is nil without a runtime.
	Recorder Recorder
	// Kubelet gives the status that the kubelet gave a pod of any source; nil without the kubelet's Pods API.
	Kubelet KubeletStatuses
}

// statuses computes the status of pods. Only the goroutine of the loop uses it.
type statuses struct {
	StatusOptions
	records map[types.UID]*podstatus.Record
	node    podstatus.Node
	// waiting are pods whose status may have changed while a set was not complete.
	waiting map[types.UID]bool
	// listed is true after the first list of the runtime.
	listed bool
	// had is what hasKubelet last returned to takeKubelet.
	had bool
	// generate is podstatus.Generate.
	generate func(podstatus.Input) *v1.PodStatus
}

func newStatuses(opts StatusOptions) statuses {
	s := statuses{
		StatusOptions: opts, records: make(map[types.UID]*podstatus.Record), waiting: make(map[types.UID]bool), generate: podstatus.Generate,
	}
	if s.NodeIPs == nil {
		s.NodeIPs = func() []string { return nil }
	}
	if s.Minor == nil {
		s.Minor = func() int { return 0 }
	}
	s.node.IPs, s.node.Minor = s.NodeIPs(), s.Minor()
	s.had = s.hasKubelet()
	return s
}

func (s *statuses) enabled() bool { return len(s.Sources) > 0 || s.Kubelet != nil }

// readings returns the channel of records.
func (s *statuses) readings() <-chan podstatus.Reading {
	if s.Recorder == nil || !s.enabled() {
		return nil
	}
	return s.Recorder.Watch()
}

// restored takes the pods of a source before a restart. Their statuses are computed again at
// the start: with other options, they may get none.
func (s *statuses) restored(u config.PodUpdate, pods *podManager) {
	for _, pod := range u.Pods {
		s.renew(pods.of(u.Source, pod.UID))
	}
}

// renew makes reconcile compute the status of a pod again. Without a runtime, no status stands but that of a kubelet.
func (s *statuses) renew(p *sourcePod) {
	s.waiting[p.pod.UID] = true
	if s.Recorder == nil && !s.ofKubelet(p) {
		p.generated = nil
	}
}

// forget forgets a pod.
func (s *statuses) forget(uid types.UID) {
	delete(s.records, uid)
	delete(s.waiting, uid)
	if s.Recorder != nil {
		s.Recorder.Forget(uid)
	}
}

// covers reports whether the pod gets a status other than its own.
func (s *statuses) covers(p *sourcePod) bool {
	if p.source == config.ApiserverSource && (config.IsMirrorPod(p.pod) || written(p.pod)) {
		return false
	}
	return slices.Contains(s.Sources, config.SourceKind(p.source))
}

// of returns the status to show of a pod, or nil for its own. An unchanged status is the same
// pointer as before.
func (s *statuses) of(ctx context.Context, p *sourcePod, mirror *v1.Pod) *v1.PodStatus {
	status, by := s.fromKubelet(p)
	if status == nil {
		status, by = s.computed(ctx, p, mirror)
	}
	p.by = by
	switch {
	case status == nil || equality.Semantic.DeepEqual(status, &p.pod.Status):
		return nil
	case p.status != nil && equality.Semantic.DeepEqual(status, p.status):
		return p.status
	}
	return status
}

// computed returns the status by our own rules; nil if nothing is known.
//
// For a static pod, the status in its mirror pod counts if a kubelet wrote it, and it says what the runtime reports or is ahead
// of that: a kubelet can write it later than the runtime reports a change, and earlier, and an apiserver can refuse it.
func (s *statuses) computed(ctx context.Context, p *sourcePod, mirror *v1.Pod) (*v1.PodStatus, StatusBy) {
	if !s.covers(p) {
		return nil, BySource
	}
	record := s.records[p.pod.UID]
	if record == nil && p.generated == nil && mirror == nil && !p.pod.Spec.HostNetwork {
		return nil, BySource // nothing is known
	}
	status := s.tryGenerate(ctx, p, record)
	if status == nil {
		return nil, BySource
	}
	if p.generated != nil && equality.Semantic.DeepEqual(status, p.generated) {
		status = p.generated // it is not kept twice
	}
	p.generated = status
	if mirror != nil && mirrors(mirror, p.pod) && written(mirror) && counts(&mirror.Status, record) {
		return &mirror.Status, ByMirrorPod
	}
	return status, ByRuntime
}

// counts reports whether the status in a mirror pod is at least as new as the record of the runtime.
func counts(status *v1.PodStatus, record *podstatus.Record) bool {
	return podstatus.Stands(status, record) || podstatus.Ahead(status, record)
}

// tryGenerate computes the status of a pod. It returns nil if that panics: the pod, and what the runtime
// reports about it, are not ours, and the other pods need the loop. The pod keeps its own status then.
func (s *statuses) tryGenerate(ctx context.Context, p *sourcePod, record *podstatus.Record) (status *v1.PodStatus) {
	defer func() {
		why := recover()
		if why == nil {
			p.panicked = false
			return
		}
		if !p.panicked {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", why), "The status of the pod can't be computed. Please report this",
				"source", p.source, "pod", klog.KObj(p.pod), "stack", string(debug.Stack()))
		}
		p.panicked = true
		p.generated = nil // if it is the cause, the next status can be computed
	}()
	return s.generate(podstatus.Input{Pod: p.pod, Record: record, Previous: p.generated, Node: s.node, Now: time.Now()})
}

// written reports whether a kubelet wrote the status of a pod in the apiserver. Each status
// that a kubelet writes has a start time.
func written(pod *v1.Pod) bool {
	return pod.Status.StartTime != nil && !config.IsOwnMirrorPod(pod)
}

// mirrors reports whether a mirror pod is that of this version of a static pod.
//
// kubelet: pkg/kubelet/pod/mirror_client.go getHashFromMirrorPod.
func mirrors(mirror, static *v1.Pod) bool {
	hash := static.Annotations[config.ConfigHashAnnotationKey]
	return hash != "" && mirror.Annotations[v1.MirrorPodAnnotationKey] == hash
}

// withStatuses returns the update with the statuses of its pods, which the pod manager has
// already.
func (l *Loop) withStatuses(ctx context.Context, u config.PodUpdate) config.PodUpdate {
	for i, pod := range u.Pods {
		p := l.pods.of(u.Source, pod.UID)
		if p == nil || p.pod != pod {
			continue // the source has the UID twice
		}
		if p.status = l.statuses.of(ctx, p, l.pods.mirror(pod)); p.status == nil {
			continue
		}
		if u.Statuses == nil {
			u.Statuses = make([]*v1.PodStatus, len(u.Pods))
		}
		u.Statuses[i] = p.status
	}
	return u
}

// take prepares an update of the config: it records the pods, requests their state in the
// runtime, and adds their statuses.
func (l *Loop) take(ctx context.Context, u config.PodUpdate) config.PodUpdate {
	mirrored := l.pods.take(u)
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

// seekNew requests the record of a pod in an update. If the runtime does not have the pod, the
// record is empty, and known at once, so that the update has the status.
func (l *Loop) seekNew(uid types.UID) {
	if pod, listed := l.pleg.Pod(uid); listed && pod == nil && l.statuses.Recorder != nil {
		l.statuses.records[uid] = new(podstatus.Record)
		l.statuses.waiting[uid] = true
		return
	}
	l.seek(uid)
}

// seek requests the record of a pod.
func (l *Loop) seek(uid types.UID) {
	if l.statuses.Recorder == nil || !slices.ContainsFunc(l.pods.all(uid), l.statuses.covers) {
		return
	}
	l.statuses.Recorder.Request(uid)
}

// recorded takes a record from the runtime.
func (l *Loop) recorded(ctx context.Context, r podstatus.Reading) {
	if _, wanted := l.pods.get(r.UID); !wanted {
		l.statuses.forget(r.UID)
		return
	}
	if r.Runtime != "" {
		l.statuses.node.Runtime = r.Runtime
	}
	l.statuses.records[r.UID] = r.Record
	l.statuses.waiting[r.UID] = true
	if pod, listed := l.pleg.Pod(r.UID); listed && pod == nil && len(r.Record.Containers)+len(r.Record.Sandboxes) > 0 {
		// The runtime removed the pod since. If the event came before this record, nothing
		// else requests another one.
		l.statuses.Recorder.Request(r.UID)
	}
	l.reconcile(ctx)
}

// reconcile sends a RECONCILE for each waiting pod whose status changed. It sends nothing while a set is not
// complete, because the updates of a set become visible together.
func (l *Loop) reconcile(ctx context.Context) {
	if l.incomplete || len(l.statuses.waiting) == 0 {
		return
	}
	logger := klog.FromContext(ctx).V(4)
	waiting := make([]types.UID, 0, len(l.statuses.waiting))
	for uid := range l.statuses.waiting {
		waiting = append(waiting, uid)
	}
	clear(l.statuses.waiting)
	slices.Sort(waiting)
	for _, uid := range waiting {
		for _, p := range l.pods.all(uid) {
			status := l.statuses.of(ctx, p, l.pods.mirror(p.pod))
			if status == p.status {
				continue
			}
			p.status = status
			logger.Info("SyncLoop RECONCILE (status)", "source", p.source, "pod", klog.KObj(p.pod))
			l.handler.HandlePodReconcile(ctx, config.PodUpdate{
				Op: config.RECONCILE, Source: p.source, Pods: []*v1.Pod{p.pod}, Files: []*config.File{p.file},
				Statuses: []*v1.PodStatus{status}, StatusOnly: true,
			})
		}
	}
}

// seekUnread requests the records of all pods that have none.
func (l *Loop) seekUnread() {
	for uid := range l.pods.byUID {
		if l.statuses.records[uid] == nil {
			l.seek(uid)
		}
	}
}

// renewAll makes reconcile compute all statuses again.
func (l *Loop) renewAll() {
	for uid := range l.pods.byUID {
		l.statuses.waiting[uid] = true
	}
}

// followKubelet makes reconcile compute all statuses again if the rules of another kubelet count.
func (l *Loop) followKubelet() {
	if minor := l.statuses.Minor(); minor != l.statuses.node.Minor {
		l.statuses.node.Minor = minor
		l.renewAll()
	}
}

// refresh computes all statuses again if the addresses of the node or the rules of its kubelet changed. If the node has
// no addresses any more, the last ones stay: a network that is set up again is no change. After the first list of the
// runtime, refresh seeks every pod, because there are no events for pods that the runtime does not have.
func (l *Loop) refresh(ctx context.Context) {
	if !l.statuses.enabled() {
		return
	}
	if !l.statuses.listed {
		_, l.statuses.listed = l.pleg.Pods()
		if l.statuses.listed {
			l.seekUnread()
		}
	}
	if ips := l.statuses.NodeIPs(); len(ips) > 0 && !slices.Equal(ips, l.statuses.node.IPs) {
		l.statuses.node.IPs = ips
		l.renewAll()
	}
	l.followKubelet()
	l.reconcile(ctx)
}
