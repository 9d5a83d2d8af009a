package config

import (
	"runtime"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// podStorage stores the pods of the last set of each source. Only one goroutine uses it.
//
// kubelet: pkg/kubelet/config/config.go podStorage.
type podStorage struct {
	sources map[string]*sourcePods
	now     func() time.Time
	// owners is set by FollowOwners.
	owners bool
}

func newPodStorage() *podStorage {
	return &podStorage{sources: make(map[string]*sourcePods), now: time.Now}
}

// podEntry is one pod of a source.
type podEntry struct {
	// ref is the last version from the source, pod the version in the last update.
	ref, pod *v1.Pod
	// next is the version in the set that is being merged; nil for none. Between merges, it is ref.
	next *v1.Pod
	// restored means that ref was read from disk, and not from the source.
	restored bool
}

// podName identifies a pod within a set.
type podName struct{ namespace, name string }

func nameOf(pod *v1.Pod) podName { return podName{pod.Namespace, pod.Name} }

// sourcePods has the pods of one source by UID and by name. A pod whose pointer is unchanged is not compared.
type sourcePods struct {
	byUID  map[types.UID]*podEntry
	byName map[podName]*podEntry
	// last are the refs of all entries, in the order of the last set.
	last []*v1.Pod
	// merged means that a set of the source was merged.
	merged bool
}

func newSourcePods(size int) *sourcePods {
	return &sourcePods{byUID: make(map[types.UID]*podEntry, size), byName: make(map[podName]*podEntry, size)}
}

// change returns the part of the last set that the set may not have, and the part of the set that may be new. The set of a file
// source is the last one with a change in one place: only what is between the refs that are the same at both ends is looked up.
func (p *sourcePods) change(set []*v1.Pod) (old, fresh []*v1.Pod) {
	begin, end := same(p.last, set)
	return p.last[begin : len(p.last)-end], set[begin : len(set)-end]
}

// same returns how many refs are the same at the beginning and, of the others, at the end.
func same(a, b []*v1.Pod) (begin, end int) {
	n := min(len(a), len(b))
	for begin < n && a[begin] == b[begin] {
		begin++
	}
	for end < n-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return begin, end
}

// mergeResult has the changes of one set.
type mergeResult struct {
	adds, updates, deletes, removes, reconciles []*podEntry
	// ambiguous is true if a name or a UID occurs twice in the set.
	ambiguous bool
	// duplicates are the pods that were ignored because of their name.
	duplicates []*v1.Pod
	first      bool
	// owners means that known pods get the owner references of the set.
	owners bool
}

// count returns the number of pods of the source.
func (s *podStorage) count(source string) int {
	if pods := s.sources[source]; pods != nil {
		return len(pods.byUID)
	}
	return 0
}

// merge stores the set as the current set of the source, and returns the changes.
func (s *podStorage) merge(source string, set []*v1.Pod) *mergeResult {
	pods := s.sources[source]
	if pods == nil {
		pods = newSourcePods(len(set))
		s.sources[source] = pods
	}
	result := &mergeResult{first: !pods.merged, owners: s.owners && source == ApiserverSource}
	pods.merged = true

	old, fresh := pods.change(set)
	known, ambiguous := pods.find(old, fresh)
	if ambiguous {
		s.mergeAmbiguous(source, pods, set, result)
		return result
	}
	outcomes := compareAll(known, fresh)
	for i, ref := range fresh {
		entry := known[i]
		switch {
		case entry == nil:
			entry = &podEntry{pod: annotate(ref, source, s.now())}
			result.adds = append(result.adds, entry)
		case entry.ref == ref:
			continue
		default:
			result.note(entry, ref, outcomes[i])
		}
		pods.put(entry, ref)
	}
	for _, ref := range old {
		if entry := pods.byUID[ref.UID]; entry != nil && entry.next == nil {
			if name := nameOf(ref); pods.byName[name] == entry {
				delete(pods.byName, name)
			}
			delete(pods.byUID, ref.UID)
			result.removes = append(result.removes, entry)
		}
	}
	pods.last = set
	return result
}

// find sets next of the entries of old, and returns the entries for the UIDs of fresh; nil for a new pod. It also returns
// whether a name or a UID occurs twice in the set, so that the order of the set matters.
func (p *sourcePods) find(old, fresh []*v1.Pod) (known []*podEntry, ambiguous bool) {
	for _, ref := range old {
		p.byUID[ref.UID].next = nil
	}
	known = make([]*podEntry, len(fresh))
	renamed := false
	for i, ref := range fresh {
		entry := p.byUID[ref.UID]
		known[i] = entry
		renamed = renamed || entry == nil || entry.ref != ref && nameOf(entry.ref) != nameOf(ref)
		if entry == nil {
			continue
		}
		if entry.next != nil {
			return nil, true
		}
		entry.next = ref
	}
	// If no pod has a new name, a clash would have existed before.
	return known, renamed && p.clash(fresh)
}

// clash reports whether a name or a UID occurs twice in the pods, or a name belongs to a
// pod whose pointer is in the set.
func (p *sourcePods) clash(fresh []*v1.Pod) bool {
	names := make(map[podName]struct{}, len(fresh))
	uids := make(map[types.UID]struct{}, len(fresh))
	for _, ref := range fresh {
		name := nameOf(ref)
		if entry := p.byName[name]; entry != nil && entry.next == entry.ref && entry.ref != ref {
			return true
		}
		names[name], uids[ref.UID] = struct{}{}, struct{}{}
	}
	return len(names) != len(fresh) || len(uids) != len(fresh)
}

// put stores ref as the last version of the entry from the source.
func (p *sourcePods) put(entry *podEntry, ref *v1.Pod) {
	name := nameOf(ref)
	if entry.ref != nil {
		if before := nameOf(entry.ref); before != name && p.byName[before] == entry {
			delete(p.byName, before)
		}
	}
	entry.ref, entry.next = ref, ref
	p.byUID[ref.UID], p.byName[name] = entry, entry
}

// mergeAmbiguous merges a set in which a name or a UID occurs twice. It merges pod by pod,
// as the kubelet does. Of several pods with the same name, the first counts. Each pod with
// the same UID is compared with the version from before the set.
//
// kubelet: pkg/kubelet/config/config.go merge, filterInvalidPods.
func (s *podStorage) mergeAmbiguous(source string, pods *sourcePods, set []*v1.Pod, result *mergeResult) {
	result.ambiguous = true
	next := newSourcePods(len(set))
	next.merged = true
	names := make(map[podName]struct{}, len(set))
	for _, ref := range set {
		name := nameOf(ref)
		if _, taken := names[name]; taken {
			result.duplicates = append(result.duplicates, ref)
			continue
		}
		names[name] = struct{}{}
		entry := pods.byUID[ref.UID]
		if entry != nil {
			result.note(entry, ref, compare(entry, ref))
		} else {
			entry = &podEntry{pod: annotate(ref, source, s.now())}
			result.adds = append(result.adds, entry)
		}
		entry.ref, entry.next = ref, ref
		next.byUID[ref.UID] = entry
	}
	for uid, entry := range pods.byUID {
		if next.byUID[uid] == nil {
			result.removes = append(result.removes, entry)
		}
	}
	for _, entry := range next.byUID {
		next.last = append(next.last, entry.ref)
		next.byName[nameOf(entry.ref)] = entry
	}
	s.sources[source] = next
}

// outcome is the pod to store, and the kind of change.
type outcome struct {
	pod  *v1.Pod
	what change
}

func compare(entry *podEntry, ref *v1.Pod) (o outcome) {
	if entry.restored {
		o.pod, o.what = compareRestored(entry.pod, ref)
		return o
	}
	o.pod, o.what = checkAndUpdatePod(entry.pod, ref)
	return o
}

// share is the minimum number of pods that each comparing goroutine gets.
const share = 32

// compareAll compares each pod that has an entry with it. It compares large sets on all
// processors, because reading the pods takes most of the time.
func compareAll(entries []*podEntry, refs []*v1.Pod) []outcome {
	outcomes := make([]outcome, len(refs))
	workers := min(runtime.GOMAXPROCS(0), len(refs)/share)
	if workers < 2 {
		compareSome(outcomes, entries, refs)
		return outcomes
	}
	var all sync.WaitGroup
	for w := range workers {
		from, to := w*len(refs)/workers, (w+1)*len(refs)/workers
		all.Go(func() { compareSome(outcomes[from:to], entries[from:to], refs[from:to]) })
	}
	all.Wait()
	return outcomes
}

func compareSome(outcomes []outcome, entries []*podEntry, refs []*v1.Pod) {
	for i, ref := range refs {
		if entries[i] != nil && entries[i].ref != ref {
			outcomes[i] = compare(entries[i], ref)
		}
	}
}

// follow takes over the owner references of the source. If nothing else changed, the pod is reconciled.
func (o outcome) follow(ref *v1.Pod) outcome {
	if apiequality.Semantic.DeepEqual(o.pod.OwnerReferences, ref.OwnerReferences) {
		return o
	}
	pod := *o.pod
	pod.OwnerReferences = ref.OwnerReferences
	if o.pod = &pod; o.what == unchanged {
		o.what = reconciled
	}
	return o
}

// note stores the outcome of the comparison with ref in the entry, and records the kind of change.
func (r *mergeResult) note(entry *podEntry, ref *v1.Pod, o outcome) {
	if r.owners {
		o = o.follow(ref)
	}
	entry.pod, entry.restored = o.pod, false
	switch o.what {
	case unchanged:
	case updated:
		r.updates = append(r.updates, entry)
	case reconciled:
		r.reconciles = append(r.reconciles, entry)
	case deleted:
		r.deletes = append(r.deletes, entry)
	}
}
