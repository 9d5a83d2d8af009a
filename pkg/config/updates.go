package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// podUpdates returns the updates of the set in the order of the kubelet: REMOVE, ADD,
// UPDATE, DELETE, RECONCILE. If a first set has no ADD, UPDATE or DELETE, an empty ADD
// comes before RECONCILE. More is true in all updates except the last. The updates have the files of the set.
//
// kubelet: pkg/kubelet/config/config.go Merge.
func (r *mergeResult) podUpdates(source string, set *SourceSet) []PodUpdate {
	var updates []PodUpdate
	add := func(op PodOperation, entries []*podEntry, always bool) {
		if len(entries) == 0 && !always {
			return
		}
		if n := len(updates); n > 0 {
			updates[n-1].More = true
		}
		u := PodUpdate{Op: op, Source: source, Pods: make([]*v1.Pod, len(entries))}
		sorted := r.sorted(entries)
		for i, entry := range sorted {
			u.Pods[i] = entry.pod
		}
		if set.Files != nil {
			u.Files = make([]*File, len(entries))
			if op != REMOVE {
				fileEach(u.Files, sorted, set)
			}
		}
		updates = append(updates, u)
	}
	add(REMOVE, r.removes, false)
	add(ADD, r.adds, false)
	add(UPDATE, r.updates, false)
	add(DELETE, r.deletes, false)
	add(ADD, nil, r.first && len(r.adds)+len(r.updates)+len(r.deletes) == 0)
	add(RECONCILE, r.reconciles, false)
	return updates
}

// sorted returns the entries ordered by the namespace, name and UID of their pods. The order of the stream must not depend
// on the order of a map in a source.
//
// Of several pods with one UID, the storage keeps the last one of the set. This pod is the last one in the update too, so
// that subscribers keep the same pod.
func (r *mergeResult) sorted(entries []*podEntry) []*podEntry {
	sorted := slices.SortedStableFunc(slices.Values(entries), func(a, b *podEntry) int { return ComparePods(a.pod, b.pod) })
	if !r.ambiguous {
		return sorted
	}
	kept := make(map[types.UID]*podEntry, len(entries))
	for _, entry := range entries {
		kept[entry.pod.UID] = entry
	}
	last := make(map[types.UID]int, len(entries))
	for i, entry := range sorted {
		last[entry.pod.UID] = i
	}
	for uid, i := range last {
		j := slices.Index(sorted, kept[uid])
		sorted[i], sorted[j] = sorted[j], sorted[i]
	}
	return sorted
}

// ComparePods orders pods by namespace, name and UID. This is the order of the pods in an
// update.
func ComparePods(a, b *v1.Pod) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
	)
}

// searched is the maximum number of pods for which fileEach searches the set. For more pods, an index is faster.
const searched = 8

// fileEach sets the file of each entry, from the set. For few entries, it does not make an index of the set, which can have
// thousands of pods.
func fileEach(files []*File, entries []*podEntry, set *SourceSet) {
	if len(entries) > searched {
		index := make(map[*v1.Pod]*File, len(set.Pods))
		for i, pod := range set.Pods {
			index[pod] = set.Files[i]
		}
		for i, entry := range entries {
			files[i] = index[entry.ref]
		}
		return
	}
	for i, entry := range entries {
		files[i] = set.Files[slices.Index(set.Pods, entry.ref)]
	}
}

// localAnnotations are the annotations that the merge sets. It copies them from version
// to version. They never cause an update.
//
// kubelet: pkg/kubelet/config/config.go localAnnotations.
var localAnnotations = []string{
	ConfigSourceAnnotationKey,
	v1.MirrorPodAnnotationKey,
	ConfigFirstSeenAnnotationKey,
}

// change is the difference between two versions of a pod.
type change int

const (
	unchanged change = iota
	updated
	reconciled
	deleted
)

// checkAndUpdatePod compares the stored pod with the new version from the source. It
// returns the pod to store, and the kind of change. The returned pod is existing itself
// if nothing changed, and otherwise a shallow copy. The function writes to neither
// argument.
//
// The copied fields are those of the kubelet. An update copies spec, labels, deletion
// fields, generation, status and annotations. A reconcile copies only the status.
//
// kubelet: pkg/kubelet/config/config.go checkAndUpdatePod.
func checkAndUpdatePod(existing, ref *v1.Pod) (*v1.Pod, change) {
	if !podsDifferSemantically(existing, ref) {
		if reflect.DeepEqual(&existing.Status, &ref.Status) {
			return existing, unchanged
		}
		pod := *existing
		pod.Status = ref.Status
		return &pod, reconciled
	}

	if ref.DeletionTimestamp != nil {
		return updatedPod(existing, ref), deleted
	}
	return updatedPod(existing, ref), updated
}

// updatedPod returns a shallow copy of existing with the fields of ref that an update
// copies.
func updatedPod(existing, ref *v1.Pod) *v1.Pod {
	pod := *existing
	pod.Spec = ref.Spec
	pod.Labels = ref.Labels
	pod.DeletionTimestamp = ref.DeletionTimestamp
	pod.DeletionGracePeriodSeconds = ref.DeletionGracePeriodSeconds
	pod.Generation = ref.Generation
	pod.Status = ref.Status
	pod.Annotations = carryAnnotations(existing.Annotations, ref.Annotations)
	return &pod
}

// podsDifferSemantically reports whether the versions differ in more than status and
// local annotations. A nil list or map differs from an empty one, as in the kubelet.
//
// kubelet: pkg/kubelet/config/config.go podsDifferSemantically.
func podsDifferSemantically(existing, ref *v1.Pod) bool {
	return !reflect.DeepEqual(&existing.Spec, &ref.Spec) ||
		!reflect.DeepEqual(existing.Labels, ref.Labels) ||
		!reflect.DeepEqual(existing.DeletionTimestamp, ref.DeletionTimestamp) ||
		!reflect.DeepEqual(existing.DeletionGracePeriodSeconds, ref.DeletionGracePeriodSeconds) ||
		!isAnnotationMapEqual(existing.Annotations, ref.Annotations)
}

// isAnnotationMapEqual reports whether the annotations are equal, ignoring the local ones.
//
// kubelet: pkg/kubelet/config/config.go isAnnotationMapEqual.
func isAnnotationMapEqual(existing, candidate map[string]string) bool {
	foreign := 0
	for k, v := range candidate {
		if isLocalAnnotationKey(k) {
			continue
		}
		if was, ok := existing[k]; !ok || was != v {
			return false
		}
		foreign++
	}
	local := 0
	for _, key := range localAnnotations {
		if _, ok := existing[key]; ok {
			local++
		}
	}
	return foreign == len(existing)-local
}

func isLocalAnnotationKey(key string) bool {
	return slices.Contains(localAnnotations, key)
}

// carryAnnotations returns the annotations of the source, overwritten by the local
// annotations of the existing version.
//
// kubelet: pkg/kubelet/config/config.go updateAnnotations.
func carryAnnotations(existing, ref map[string]string) map[string]string {
	annotations := make(map[string]string, len(ref)+len(localAnnotations))
	maps.Copy(annotations, ref)
	for _, key := range localAnnotations {
		if v, ok := existing[key]; ok {
			annotations[key] = v
		}
	}
	return annotations
}

// annotate returns a shallow copy of a new pod, annotated with the kind of the source and
// the time at which it was first seen. The kubelet has one source of each kind, so programs
// that read the annotation expect its names.
func annotate(ref *v1.Pod, source string, now time.Time) *v1.Pod {
	pod := *ref
	pod.Annotations = make(map[string]string, len(ref.Annotations)+2)
	maps.Copy(pod.Annotations, ref.Annotations)
	pod.Annotations[ConfigSourceAnnotationKey] = SourceKind(source)
	pod.Annotations[ConfigFirstSeenAnnotationKey] = now.Format(time.RFC3339Nano)
	return &pod
}

// mergeMetrics are the metrics of the merge. The arrays have an element for each operation of
// the config.
type mergeMetrics struct {
	duration prometheus.Histogram
	pods     [RECONCILE + 1]prometheus.Counter
}

// Instrument registers the metrics of the merge. It is called before Run. Without it, there are
// none.
func (c *PodConfig) Instrument(reg prometheus.Registerer) {
	in := metric.In(reg, "merge")
	m := &mergeMetrics{duration: in.Histogram("duration_seconds", "Time to merge a set, in seconds.", prometheus.ExponentialBuckets(0.00001, 4, 9))}
	pods := in.CounterVec("pods_total", "Number of pods in the operations that the merge emitted, by operation.", "op")
	for op := range m.pods {
		m.pods[op] = pods.WithLabelValues(PodOperation(op).String())
	}
	c.metrics = m
}

// merged records the result of a merge.
func (m *mergeMetrics) merged(started time.Time, updates []PodUpdate) {
	if m == nil {
		return
	}
	m.duration.Observe(time.Since(started).Seconds())
	for i := range updates {
		m.pods[updates[i].Op].Add(float64(len(updates[i].Pods)))
	}
}
