package config

import (
	"runtime"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podStorage stores the pods of the last set of each source. Only one goroutine uses it.
//
// kubelet: pkg/kubelet/config/config.go podStorage.
type podStorage struct {
	sources map[string]*sourcePods
	now     func() time.Time
}

func newPodStorage() *podStorage {
	return &podStorage{sources: make(map[string]*sourcePods), now: time.Now}
}

// podEntry is one pod of a source.
type podEntry struct {
	// ref is the last version from the source, pod the version in the last update.
	ref, pod *v1.Pod
	// found is the number of the last set with another pointer for this pod.
	found uint32
	// generation is that of the last set with ref.
	generation uint32
	// restored means that ref was read from disk, and not from the source.
	restored bool
}

// podName identifies a pod within a set.
type podName struct{ namespace, name string }

func nameOf(pod *v1.Pod) podName { return podName{pod.Namespace, pod.Name} }

// sourcePods has the pods of one source by pointer, by UID and by name. A pod whose
// pointer is unchanged is not compared.
type sourcePods struct {
	refs   refTable
	byUID  map[types.UID]*podEntry
	byName map[podName]*podEntry
	// last are the refs of the table, in the order of the last set.
	last []*v1.Pod
	// generation marks the entries of the set. It is the same for a set that differs little from the last one.
	generation uint32
	// sets counts the sets.
	sets uint32
}

func newSourcePods(size int) *sourcePods {
	return &sourcePods{
		refs:   make(refTable, size),
		byUID:  make(map[types.UID]*podEntry, size),
		byName: make(map[podName]*podEntry, size),

		generation: forgotten + 1,
	}
}

// mark marks which refs of the table are in the set. It returns the refs of the set that are not in the table or occur a
// second time in the set, and the number of the others. left are the refs of the table that may not be in the set. The set of
// a file source is the last one with a change in one place: only the refs between those that are the same at both ends are looked up.
func (p *sourcePods) mark(set []*v1.Pod) (left, fresh []*v1.Pod, kept int) {
	begin, end := same(p.last, set)
	if 2*(begin+end) < len(set) {
		p.generation++
		fresh, kept = p.refs.touch(set, p.generation)
		return p.last, fresh, kept
	}
	left = p.last[begin : len(p.last)-end]
	p.refs.forget(left)
	fresh, kept = p.refs.touch(set[begin:len(set)-end], p.generation)
	return left, fresh, begin + kept + end
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
	result := &mergeResult{first: pods.sets == 0}
	pods.sets++

	left, fresh, kept := pods.mark(set)
	if len(fresh) == 0 && kept == len(pods.byUID) && kept == len(set) {
		pods.last = set
		return result
	}
	known, ambiguous := pods.find(fresh)
	if ambiguous {
		s.mergeAmbiguous(source, pods, set, result)
		return result
	}
	present := kept
	before := len(pods.byUID)
	outcomes := compareAll(known, fresh)
	for i, ref := range fresh {
		entry := known[i]
		if entry != nil {
			present++
			result.note(entry, outcomes[i])
		} else {
			entry = &podEntry{pod: annotate(ref, source, s.now())}
			pods.byUID[ref.UID] = entry
			result.adds = append(result.adds, entry)
		}
		pods.replace(entry, ref)
	}
	if present < before {
		pods.sweep(left, result)
	}
	pods.last = set
	return result
}

// find returns the entries for the UIDs of the pods; nil for a new pod. It also returns
// whether a name or a UID occurs twice in the set, so that the order of the set matters.
func (p *sourcePods) find(fresh []*v1.Pod) (known []*podEntry, ambiguous bool) {
	known = make([]*podEntry, len(fresh))
	renamed := false
	for i, ref := range fresh {
		entry := p.byUID[ref.UID]
		known[i] = entry
		switch {
		case entry == nil || nameOf(entry.ref) != nameOf(ref):
			renamed = true
		case entry.found == p.sets:
			return nil, true
		default:
			entry.found = p.sets
		}
		if entry != nil && p.inSet(entry) {
			return nil, true
		}
	}
	// If no pod has a new name, a clash would have existed before.
	return known, renamed && p.clash(fresh)
}

// clash reports whether a name or a UID occurs twice in the pods, or a name belongs to a
// pod whose pointer is in the set.
func (p *sourcePods) clash(fresh []*v1.Pod) bool {
	for _, ref := range fresh {
		if entry := p.byName[nameOf(ref)]; entry != nil && p.inSet(entry) {
			return true
		}
	}
	if len(fresh) < 2 {
		return false
	}
	names := make(map[podName]struct{}, len(fresh))
	uids := make(map[types.UID]struct{}, len(fresh))
	for _, ref := range fresh {
		names[nameOf(ref)] = struct{}{}
		uids[ref.UID] = struct{}{}
	}
	return len(names) != len(fresh) || len(uids) != len(fresh)
}

// inSet reports whether the pointer of the entry is in the set that is being merged.
func (p *sourcePods) inSet(entry *podEntry) bool { return entry.generation == p.generation }

// replace stores ref as the last version of the entry from the source.
func (p *sourcePods) replace(entry *podEntry, ref *v1.Pod) {
	name := nameOf(ref)
	if entry.ref != nil {
		delete(p.refs, entry.ref)
		if before := nameOf(entry.ref); before != name && p.byName[before] == entry {
			delete(p.byName, before)
		}
	}
	entry.ref = ref
	p.refs.put(entry, p.generation)
	if p.byName[name] != entry {
		p.byName[name] = entry
	}
}

// sweep removes the entries of those refs that are not in the last set.
func (p *sourcePods) sweep(left []*v1.Pod, result *mergeResult) {
	for _, entry := range p.refs.absent(left, p.generation) {
		delete(p.refs, entry.ref)
		if name := nameOf(entry.ref); p.byName[name] == entry {
			delete(p.byName, name)
		}
		delete(p.byUID, entry.ref.UID)
		result.removes = append(result.removes, entry)
	}
}

// mergeAmbiguous merges a set in which a name or a UID occurs twice. It merges pod by pod,
// as the kubelet does. Of several pods with the same name, the first counts. Each pod with
// the same UID is compared with the version from before the set.
//
// kubelet: pkg/kubelet/config/config.go merge, filterInvalidPods.
func (s *podStorage) mergeAmbiguous(source string, pods *sourcePods, set []*v1.Pod, result *mergeResult) {
	result.ambiguous = true
	next := newSourcePods(len(set))
	next.sets = pods.sets
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
			result.note(entry, compare(entry, ref))
		} else {
			entry = &podEntry{pod: annotate(ref, source, s.now())}
			result.adds = append(result.adds, entry)
		}
		entry.ref = ref
		next.byUID[ref.UID] = entry
	}
	for uid, entry := range pods.byUID {
		if next.byUID[uid] == nil {
			result.removes = append(result.removes, entry)
		}
	}
	for _, entry := range next.byUID {
		next.refs.put(entry, next.generation)
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
		if entries[i] != nil {
			outcomes[i] = compare(entries[i], ref)
		}
	}
}

// note stores the outcome in the entry, and records the kind of change.
func (r *mergeResult) note(entry *podEntry, o outcome) {
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
