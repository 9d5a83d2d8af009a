package journal

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Defaults of Options.
const (
	// DefaultMaxUpdates and DefaultMaxBytes limit the ring. They allow at least a
	// thousand versions of pods. An idle node makes a few each day.
	DefaultMaxUpdates = 8192
	DefaultMaxBytes   = 16 << 20
)

// Options configure a journal.
type Options struct {
	// Sources are the names of all sources. The journal is ready after an update from
	// each.
	Sources []string
	// MaxUpdates and MaxBytes limit the ring. MaxBytes is the approximate memory of the
	// versions of pods that are no longer current. The newest set stays whatever its
	// size, but see Run. 0 means the default.
	MaxUpdates int
	MaxBytes   int64
	// Floor is a revision below all revisions of this journal: the highest revision of an
	// earlier instance.
	Floor int64
	// Reserve, if set, is called by Run with a ceiling. No revision is above the ceiling
	// until the next call. If it fails, Run logs the error and retries.
	Reserve func(ceiling int64) error
	// Registerer is for the journal's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Journal is the ordered sequence of updates, and the state that results from them. It is
// safe for concurrent use.
type Journal struct {
	instance   string
	maxUpdates int
	maxBytes   int64
	reserve    func(int64) error
	metrics    *metrics

	// appending guards pending, the updates of a set that is not complete yet. It is
	// locked before mu.
	appending sync.Mutex
	pending   []config.PodUpdate

	// mu guards the fields below. It is never held during a write to a subscriber or the
	// encoding of a pod.
	mu   sync.RWMutex
	ring ring[*Set]
	// first is the revision before the first one, head is the newest, compacted is the
	// newest one that left the ring.
	first, head, compacted int64
	// progress is the revision for bookmarks of subscribers that got no update.
	progress int64
	// updates and bytes are the totals of the sets in the ring.
	updates int
	bytes   int64
	state   map[podKey]*Pod
	names   index[types.NamespacedName]
	uids    index[types.UID]
	// bookmark is shared. It is replaced, never changed.
	bookmark *Bookmark
	// changed is closed and replaced when there is something new to read.
	changed chan struct{}
	// subscribers are the current ones, and demand is what they request of the runtime.
	subscribers map[*Subscriber]struct{}
	nextID      int64
	demand      map[config.PodOperation]*demand
	// orphans are the pods of the newest HOUSEKEEPING; nil before the first.
	orphans []*Pod

	// orders are the latest sort orders of Snapshot.
	orders [orderCount]atomic.Pointer[any]
}

// Bookmark is the state of the sources.
type Bookmark struct {
	// Ready: every source has been seen.
	Ready   bool
	Sources map[string]v1alpha1.SourceState
}

// AnySeen reports whether at least one source has been seen.
func (b *Bookmark) AnySeen() bool {
	for _, s := range b.Sources {
		if s.Seen {
			return true
		}
	}
	return false
}

// with returns the bookmark after the source has been seen.
func (b *Bookmark) with(source string) *Bookmark {
	next := &Bookmark{Ready: true, Sources: maps.Clone(b.Sources)}
	next.Sources[source] = v1alpha1.SourceState{Seen: true}
	for _, s := range next.Sources {
		next.Ready = next.Ready && s.Seen
	}
	return next
}

// New returns an empty journal with a new instance ID. Its revisions start at the current
// time in milliseconds, or above the floor if that is later. So revisions of earlier
// instances are lower.
func New(opts Options) *Journal {
	start := max(time.Now().UnixMilli(), opts.Floor+1)
	sources := make(map[string]v1alpha1.SourceState)
	for _, source := range opts.Sources {
		sources[source] = v1alpha1.SourceState{}
	}
	j := &Journal{
		instance:   string(uuid.NewUUID()),
		maxUpdates: cmp.Or(opts.MaxUpdates, DefaultMaxUpdates),
		maxBytes:   cmp.Or(opts.MaxBytes, DefaultMaxBytes),
		reserve:    opts.Reserve,
		first:      start, head: start, compacted: start, progress: start,
		state:       make(map[podKey]*Pod),
		names:       newIndex((*Pod).name),
		uids:        newIndex(func(p *Pod) types.UID { return p.Object.UID }),
		bookmark:    &Bookmark{Ready: len(sources) == 0, Sources: sources},
		changed:     make(chan struct{}),
		subscribers: make(map[*Subscriber]struct{}),
		demand:      make(map[config.PodOperation]*demand),
	}
	j.metrics = newMetrics(opts.Registerer, j)
	return j
}

// Append appends an update. The updates of one set become visible together, with the
// first update that does not have More. Append never waits for a subscriber.
//
// A SYNC is recorded only if a subscriber requests the operation or requested it within
// the last minutes. Otherwise SYNCs would push updates out of the ring that are still
// needed.
func (j *Journal) Append(u config.PodUpdate) {
	now := time.Now()
	if !u.Op.IsConfig() {
		pods := prepare(u)
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.wantedLocked(u.Op, now) {
			j.commitLocked([]config.PodUpdate{u}, [][]*Pod{pods}, nil, now)
		}
		return
	}
	j.appending.Lock()
	defer j.appending.Unlock()
	j.pending = append(j.pending, u)
	if u.More {
		return
	}
	pods := make([][]*Pod, len(j.pending))
	for i, u := range j.pending {
		pods[i] = prepare(u)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commitLocked(j.pending, pods, nil, now)
	j.pending = nil
}

// prepare makes the versions of the update's pods. It computes the size of each pod,
// which takes time, so it runs before the lock.
func prepare(u config.PodUpdate) []*Pod {
	if u.Op == config.REMOVE {
		return nil // it makes no versions
	}
	pods := make([]*Pod, len(u.Pods))
	for i, object := range u.Pods {
		pods[i] = NewPod(u.Source, object)
	}
	return pods
}

// commitLocked gives revisions to the updates of a set, applies them to the state and
// makes them visible. It is the only way into the ring.
func (j *Journal) commitLocked(updates []config.PodUpdate, prepared [][]*Pod, event *v1alpha1.Event, now time.Time) {
	set := &Set{First: j.head + 1, Time: now}
	for i, u := range updates {
		update := &Update{
			First: j.head + 1, Time: now, Op: u.Op, Source: u.Source, Event: event,
			Pods: make([]*Pod, len(u.Pods)), Before: make([]*Pod, len(u.Pods)),
		}
		if len(u.Pods) == 0 {
			j.head++
		}
		for k, object := range u.Pods {
			j.head++
			var next *Pod
			if prepared[i] != nil {
				next = prepared[i][k]
			}
			j.takeLocked(set, update, k, object, next)
		}
		update.Revision = j.head
		set.Updates = append(set.Updates, update)
		j.seenLocked(set, u)
		j.metrics.updates.WithLabelValues(u.Op.String(), u.Source).Inc()
	}
	set.Names, j.head = revised(&j.names, j.head)
	set.UIDs = j.uids.changes()
	set.Revision = j.head
	set.Updates[len(set.Updates)-1].Revision = j.head
	j.pushLocked(set)
	close(j.changed)
	j.changed = make(chan struct{})
}

// takeLocked applies one pod of an update to the state. prepared is its version.
func (j *Journal) takeLocked(set *Set, u *Update, n int, object *v1.Pod, prepared *Pod) {
	key := podKey{u.Source, object.UID}
	before := j.state[key]
	pod := prepared
	switch {
	case u.Op == config.REMOVE && before == nil: // the merge removes only what it added
		pod = NewPod(u.Source, object).at(j.head)
	case u.Op == config.REMOVE, before != nil && before.Object == object:
		pod = before
	default:
		pod.Revision = j.head
	}
	u.Pods[n], u.Before[n] = pod, before
	u.Mirrors = u.Mirrors || config.IsMirrorPod(object) || (before != nil && config.IsMirrorPod(before.Object))
	switch {
	case !u.Op.IsConfig():
	case u.Op == config.REMOVE:
		delete(j.state, key)
		j.names.replace(before, nil, j.head)
		j.uids.replace(before, nil, j.head)
	default:
		j.state[key] = pod
		j.names.replace(before, pod, j.head)
		j.uids.replace(before, pod, j.head)
	}
	// A version that is no longer current belongs to the set that replaced it. Nothing
	// else holds it longer.
	present := j.state[key]
	if before != nil && before != present {
		set.size += int64(before.size) * memoryFactor
	}
	if pod != before && pod != present {
		set.size += int64(pod.size) * memoryFactor
	}
}

// seenLocked records the first update of a source.
func (j *Journal) seenLocked(set *Set, u config.PodUpdate) {
	if !u.Op.IsConfig() || u.Source == "" || j.bookmark.Sources[u.Source].Seen {
		return
	}
	j.bookmark = j.bookmark.with(u.Source)
	set.Readied = j.bookmark.Ready
}

// memoized is the number of newest sets that keep the frames of views.
const memoized = 64

func (j *Journal) pushLocked(set *Set) {
	j.ring.push(set)
	j.updates += len(set.Updates)
	j.bytes += set.size
	for j.ring.len() > 1 && (j.updates > j.maxUpdates || j.bytes > j.maxBytes) {
		j.popLocked()
	}
	if n := j.ring.len(); n > memoized {
		j.ring.at(n - 1 - memoized).forget()
	}
}

func (j *Journal) popLocked() {
	set := j.ring.pop()
	j.updates -= len(set.Updates)
	j.bytes -= set.size
	j.compacted = set.Revision
}

// Instance returns the instance's ID.
func (j *Journal) Instance() string { return j.instance }

// Unseen returns the names of the sources that have not been seen.
func (j *Journal) Unseen() []string {
	j.mu.RLock()
	bookmark := j.bookmark
	j.mu.RUnlock()
	var unseen []string
	for name, s := range bookmark.Sources {
		if !s.Seen {
			unseen = append(unseen, name)
		}
	}
	slices.Sort(unseen)
	return unseen
}

// AllReady reports whether every source has been seen. It makes the journal a
// config.SourcesReady.
func (j *Journal) AllReady() bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.bookmark.Ready
}

// Revision returns the newest revision.
func (j *Journal) Revision() int64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.head
}
