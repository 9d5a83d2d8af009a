package syncloop

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// handlePLEG passes an event to the handler. It also sends a SYNC for the pod if a source
// has the pod, unless the event is ContainerRemoved.
//
// kubelet: pkg/kubelet/kubelet.go syncLoopIteration, isSyncPodWorthy.
func (l *Loop) handlePLEG(ctx context.Context, e *pleg.PodLifecycleEvent) {
	logger := klog.FromContext(ctx)
	if e == nil {
		return
	}
	pod, wanted := l.pods.get(e.ID)
	if !wanted {
		pod = named(e.ID, e.Namespace, e.Name)
	}
	if wanted && l.statuses.enabled() {
		l.seek(e.ID)
		l.reconcile(ctx)
	}
	l.handler.HandlePodLifecycleEvent(ctx, pod, e)
	switch {
	case !wanted:
		logger.V(4).Info("SyncLoop (PLEG): pod does not exist, ignore irrelevant event", "podUID", e.ID, "event", e.Type)
	case e.Type != pleg.ContainerRemoved:
		logger.V(2).Info("SyncLoop (PLEG): event for pod", "pod", klog.KObj(pod), "event", e.Type)
		l.handler.HandlePodSyncs(ctx, []*v1.Pod{pod})
	}
}

// named returns a pod that only the runtime has.
func named(uid types.UID, namespace, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace, Name: name}}
}

// Orphans counts the pods in the runtime that are in no source.
type Orphans struct {
	Pods int
	// Waiting counts those that are in no source yet: a source that can have them has not been seen.
	Waiting int
}

// Orphans returns the result of the last housekeeping.
func (l *Loop) Orphans() Orphans {
	if found := l.found.Load(); found != nil {
		return *found
	}
	return Orphans{}
}

// findOrphans finds the pods in the runtime that are in no source. It passes them to the
// handler if they changed since the last time. A pod of which the runtime knows the kind of its source waits for the sources
// of that kind, all others wait for every source: an apiserver that is down hides no orphan of the file source. The sandboxes
// of static pods on a node with a kubelet are not among them, whatever their UID is.
//
// kubelet: pkg/kubelet/kubelet_pods.go HandlePodCleanups, which waits for every source.
func (l *Loop) findOrphans(ctx context.Context) {
	pods, known := l.pleg.Pods()
	if !known {
		return
	}
	var orphans []*v1.Pod
	var uids []types.UID
	found := new(Orphans)
	defer l.found.Store(found)
	ready := l.sourcesReady.AllReady()
	for _, p := range pods { // by UID
		if _, wanted := l.pods.get(p.UID); wanted || p.Name == "" || l.isOfKubelet(p) {
			continue // without a name, only a container of it is left
		}
		if !ready && (p.Source == "" || !l.sourcesReady.KindReady(config.SourceKind(p.Source))) {
			found.Waiting++
			continue
		}
		orphans = append(orphans, named(p.UID, p.Namespace, p.Name))
		uids = append(uids, p.UID)
	}
	found.Pods = len(uids)
	if slices.Equal(uids, l.orphans) {
		return
	}
	l.orphans = uids
	klog.FromContext(ctx).V(2).Info("SyncLoop (housekeeping): pods in the runtime that are in no source", "pods", klog.KObjSlice(orphans))
	l.handler.HandlePodOrphans(ctx, orphans)
}

// isOfKubelet reports whether a kubelet of the node cleans the pod up: it started the pod from a
// manifest, and a source of static pods has a pod of that name.
func (l *Loop) isOfKubelet(p *pleg.Pod) bool {
	isStatic := p.Source == config.FileSource || p.Source == config.HTTPSource
	return isStatic && len(l.pods.statics[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]) > 0 &&
		l.kubelet != nil && l.kubelet.Present()
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
		l.statuses.Records.Request(r.UID)
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
			status := l.statuses.statusFor(ctx, p, l.pods.mirror(p.pod))
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
