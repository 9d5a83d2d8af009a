package config

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
