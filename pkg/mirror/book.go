package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// book has the pods of a state of the journal, by name.
type book struct {
	// mirrorsKnown means that the apiserver source is seen, complete that all sources are.
	mirrorsKnown, complete bool
	// names are all names with a static pod or a mirror pod.
	names   map[types.NamespacedName]bool
	statics map[types.NamespacedName]static
	mirrors map[types.NamespacedName]*v1.Pod
	// bound has the other pods of the apiserver on the node.
	bound map[types.NamespacedName]bool
}

// static is a static pod.
type static struct {
	pod *v1.Pod
	// seen is false if the pod was restored after a restart, and its source is not seen yet.
	seen bool
}

func newBook(state *journal.State) *book {
	b := &book{
		mirrorsKnown: state.Bookmark.Sources[config.ApiserverSource].Seen, complete: state.Bookmark.Ready,
		names: make(map[types.NamespacedName]bool), statics: make(map[types.NamespacedName]static),
		mirrors: make(map[types.NamespacedName]*v1.Pod), bound: make(map[types.NamespacedName]bool),
	}
	for _, p := range state.Pods {
		if p.Source != config.ApiserverSource {
			continue
		}
		if config.IsMirrorPod(p.Object) {
			b.mirrors[nameOf(p.Object)] = p.Object
			b.names[nameOf(p.Object)] = true
		} else {
			b.bound[nameOf(p.Object)] = true
		}
	}
	for _, p := range state.Pods { // ordered by source
		if p.Source == config.ApiserverSource || hashOf(p.Object) == "" {
			continue
		}
		name, seen := nameOf(p.Object), state.Bookmark.Sources[p.Source].Seen
		b.names[name] = true
		other, taken := b.statics[name]
		if !taken || prefer(b.mirrors[name], static{p.Object, seen}, other) {
			b.statics[name] = static{p.Object, seen}
		}
	}
	return b
}

// prefer reports whether a static pod replaces the one of an earlier source with the same name. The pod that already has
// the mirror pod is preferred.
func prefer(mirror *v1.Pod, s, before static) bool {
	if mirror == nil || isMirrorOf(mirror, before.pod) {
		return false
	}
	return isMirrorOf(mirror, s.pod)
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// hashOf returns the hash of a static pod.
//
// kubelet: pkg/kubelet/pod/mirror_client.go getPodHash.
func hashOf(static *v1.Pod) string { return static.Annotations[config.ConfigHashAnnotationKey] }

// isMirrorOf reports whether a mirror pod belongs to this version of the static pod with its name.
//
// kubelet: pkg/kubelet/pod/pod_manager.go IsMirrorPodOf.
func isMirrorOf(mirror, static *v1.Pod) bool {
	return mirror.Annotations[v1.MirrorPodAnnotationKey] == hashOf(static)
}

// isOwn reports whether podconfigd created the mirror pod.
func isOwn(mirror *v1.Pod) bool {
	_, own := mirror.Annotations[config.OwnMirrorAnnotationKey]
	return own
}

// ownerOf returns the UID of the node that owns the mirror pod.
func ownerOf(mirror *v1.Pod) types.UID {
	for i := range mirror.OwnerReferences {
		if owner := &mirror.OwnerReferences[i]; owner.Kind == "Node" {
			return owner.UID
		}
	}
	return ""
}

// maxProblems is the maximum number of problems in the status.
const maxProblems = 50

// show updates the status and the metrics. It logs when creation stops and when it goes on.
func (p *pass) show(ctx context.Context) {
	shown := v1alpha1.MirrorStatus{Pods: len(p.known), StaticPods: len(p.book.statics), Waiting: p.waiting(), Stopped: p.stop}
	for _, name := range slices.SortedFunc(maps.Keys(p.entries), compareNames) {
		e := p.entries[name]
		switch {
		case e.problem == "":
		case len(shown.Problems) == maxProblems:
			shown.ProblemsOmitted++
		default:
			shown.Problems = append(shown.Problems, v1alpha1.MirrorProblem{
				Namespace: name.Namespace, Name: name.Name, Message: e.problem, Since: e.since,
			})
		}
	}
	p.metrics.pods.Set(float64(shown.Pods))
	p.metrics.stopped.Set(metric.Bool(shown.Stopped != nil))
	p.mu.Lock()
	before := p.shown.Stopped
	p.shown = shown
	p.mu.Unlock()
	switch {
	case before == nil && p.stop != nil:
		klog.FromContext(ctx).Error(nil, "Stopped creating mirror pods", "reason", p.stop.Reason)
	case before != nil && p.stop == nil:
		klog.FromContext(ctx).Info("Creating mirror pods again")
	}
}

// waiting returns what the creation of mirror pods waits for; empty if for nothing.
func (p *pass) waiting() string {
	switch {
	case !p.book.mirrorsKnown:
		return "the pods of the apiserver are not known yet"
	case p.node == nil:
		return "the apiserver does not have the node"
	case p.node.DeletionTimestamp != nil:
		return "the node is being deleted in the apiserver"
	}
	return ""
}

// The operations of requests, in metrics.
const (
	opCreate = "create"
	opDelete = "delete"
	opStatus = "status"
)

type metrics struct {
	pods, stopped    prometheus.Gauge
	requests, errors *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "mirror")
	return &metrics{
		pods:    in.Gauge("pods", "Number of mirror pods that podconfigd has in the apiserver for static pods."),
		stopped: in.Gauge("stopped", "1 while no mirror pods are created, because another client manages those of the node; otherwise 0."),
		requests: in.CounterVec("requests_total", "Number of successful requests for mirror pods, by operation: create, delete or status.",
			"operation", opCreate, opDelete, opStatus),
		errors: in.CounterVec("errors_total", "Number of failed requests for mirror pods, by operation: create, delete or status.",
			"operation", opCreate, opDelete, opStatus),
	}
}
