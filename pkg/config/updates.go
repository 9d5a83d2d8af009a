package config

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podUpdates returns the updates of the set in the order of the kubelet: REMOVE, ADD,
// UPDATE, DELETE, RECONCILE. If a first set has no ADD, UPDATE or DELETE, an empty ADD
// comes before RECONCILE. More is true in all updates except the last.
//
// kubelet: pkg/kubelet/config/config.go Merge.
func (r *mergeResult) podUpdates(source string) []PodUpdate {
	var updates []PodUpdate
	add := func(op PodOperation, entries []*podEntry, always bool) {
		if len(entries) == 0 && !always {
			return
		}
		if n := len(updates); n > 0 {
			updates[n-1].More = true
		}
		pods := sortedPods(entries)
		if r.ambiguous {
			lastOfUIDLast(pods, entries)
		}
		updates = append(updates, PodUpdate{Op: op, Source: source, Pods: pods})
	}
	add(REMOVE, r.removes, false)
	add(ADD, r.adds, false)
	add(UPDATE, r.updates, false)
	add(DELETE, r.deletes, false)
	add(ADD, nil, r.first && len(r.adds)+len(r.updates)+len(r.deletes) == 0)
	add(RECONCILE, r.reconciles, false)
	return updates
}

// sortedPods returns the pods of the entries, ordered by namespace, name and UID. The order
// of the stream must not depend on the order of a map in a source.
func sortedPods(entries []*podEntry) []*v1.Pod {
	pods := make([]*v1.Pod, len(entries))
	for i, entry := range entries {
		pods[i] = entry.pod
	}
	slices.SortStableFunc(pods, ComparePods)
	return pods
}

// lastOfUIDLast orders several pods of one UID. The storage keeps the last one of the set.
// This pod becomes the last one in the update too, so that subscribers keep the same pod.
func lastOfUIDLast(pods []*v1.Pod, entries []*podEntry) {
	kept := make(map[types.UID]*v1.Pod, len(entries))
	for _, entry := range entries {
		kept[entry.pod.UID] = entry.pod
	}
	last := make(map[types.UID]int, len(pods))
	for i, pod := range pods {
		last[pod.UID] = i
	}
	for uid, i := range last {
		j := slices.Index(pods, kept[uid])
		pods[i], pods[j] = pods[j], pods[i]
	}
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

// searched is the maximum number of pods for which filesOf searches the set. For more pods, an index is faster.
const searched = 8

// filesOf returns the file of each pod of an update, from the set. For an update of few pods, it does not make an index
// of the set, which can have thousands of pods.
func filesOf(pods []*v1.Pod, set *SourceSet) []*File {
	if set.Files == nil {
		return nil
	}
	of := make([]*File, len(pods))
	if len(pods) > searched {
		files := make(map[types.UID]*File, len(set.Pods))
		for i, pod := range set.Pods {
			files[pod.UID] = set.Files[i]
		}
		for i, pod := range pods {
			of[i] = files[pod.UID]
		}
		return of
	}
	for i, pod := range pods {
		for at, p := range slices.Backward(set.Pods) { // of two with one UID, the last counts
			if p.UID == pod.UID {
				of[i] = set.Files[at]
				break
			}
		}
	}
	return of
}
