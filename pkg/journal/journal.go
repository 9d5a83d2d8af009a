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
	// DefaultMaxUpdates and DefaultMaxBytes bound the ring: a thousand or more
	// versions of pods, of which a quiet node makes some each day.
	DefaultMaxUpdates = 8192
	DefaultMaxBytes   = 16 << 20
)

// Options say how much a journal keeps.
type Options struct {
	// Sources are the names of all sources: the journal is ready when it has had an
	// update from each.
	Sources []string
	// MaxUpdates and MaxBytes bound the ring: the latter by about how much memory the
	// versions of pods take that are not present any more. The newest set stays whatever
	// its size, but see Run. 0 stands for the default.
	MaxUpdates int
	MaxBytes   int64
	// Floor is a revision that all of this journal's are above: the highest of an earlier
	// instance.
	Floor int64
	// Reserve, if set, is given a revision that none will be above until it is called
	// again. It is called by Run. An error is logged, and Reserve is tried again.
	Reserve func(ceiling int64) error
	// Registerer takes the journal's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Journal is the ordered series of updates and the state that they add up to. It is
// safe for concurrent use.
type Journal struct {
	instance   string
	maxUpdates int
	maxBytes   int64
	reserve    func(int64) error
	metrics    *metrics

	// appending guards pending, the updates of a source set that is not complete yet. It is
	// taken before mu.
	appending sync.Mutex
	pending   []config.PodUpdate

	// mu guards what follows. It is never held while a subscriber is written to or a pod
	// encoded.
	mu   sync.RWMutex
	ring ring[*Set]
	// first is the revision before the first one, head the newest, compacted the newest that left the ring.
	first, head, compacted int64
	// progress is the revision up to which subscribers that saw nothing are told so.
	progress int64
	// updates and bytes are those of the sets in the ring.
	updates int
	bytes   int64
	state   map[podKey]*Pod
	names   index[types.NamespacedName]
	uids    index[types.UID]
	// bookmark is replaced, not changed: bookmarks share it.
	bookmark *Bookmark
	// changed is closed and replaced when there is something new to read.
	changed chan struct{}
	// subscribers and demand are who reads, and what of the runtime they ask for.
	subscribers map[*Subscriber]struct{}
	nextID      int64
	demand      map[config.PodOperation]*demand
	// orphans are those of the newest HOUSEKEEPING; nil before the first.
	orphans []*Pod

	// orders are what Snapshot last sorted.
	orders [orderCount]atomic.Pointer[any]
}

// Bookmark is what the journal knows of the sources.
type Bookmark struct {
	// Ready: every source has been seen.
	Ready   bool
	Sources map[string]v1alpha1.SourceState
}

// AnySeen tells whether at least one source has been seen.
func (b *Bookmark) AnySeen() bool {
	for _, s := range b.Sources {
		if s.Seen {
			return true
		}
	}
	return false
}

// with returns the bookmark once the source has been seen.
func (b *Bookmark) with(source string) *Bookmark {
	next := &Bookmark{Ready: true, Sources: maps.Clone(b.Sources)}
	next.Sources[source] = v1alpha1.SourceState{Seen: true}
	for _, s := range next.Sources {
		next.Ready = next.Ready && s.Seen
	}
	return next
}

// New returns an empty journal. Its instance is new, and its revisions begin at the
// present time in milliseconds, or above the floor where that is later: a revision of
// an earlier instance lies before them.
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

// Append takes an update. It becomes visible once what its source set changed is
// complete, with the first update that does not have More. Append never waits for a
// subscriber.
//
// A SYNC is taken only while a subscriber asks for that operation, or one did in the
// last minutes: otherwise it would push updates out of the ring that are still needed.
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

// prepare makes the versions that the update brings. That takes time (a pod has to be
// measured), so it is done before the lock is taken.
func prepare(u config.PodUpdate) []*Pod {
	if u.Op == config.REMOVE {
		return nil // the versions are there
	}
	pods := make([]*Pod, len(u.Pods))
	for i, object := range u.Pods {
		pods[i] = NewPod(u.Source, object)
	}
	return pods
}

// commitLocked gives the updates of a set their revisions, brings the state up to them
// and makes them visible. It is the only way into the ring.
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

// takeLocked brings the state up to one pod of an update. prepared is its version.
func (j *Journal) takeLocked(set *Set, u *Update, n int, object *v1.Pod, prepared *Pod) {
	key := podKey{u.Source, object.UID}
	before := j.state[key]
	pod := prepared
	switch {
	case u.Op == config.REMOVE && before == nil: // the merge removes what it added only
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
	// What is not present any more is held by the set that replaced it, and by nothing
	// that stays longer.
	present := j.state[key]
	if before != nil && before != present {
		set.size += int64(before.size) * memoryFactor
	}
	if pod != before && pod != present {
		set.size += int64(pod.size) * memoryFactor
	}
}

// seenLocked takes note of a source's first update.
func (j *Journal) seenLocked(set *Set, u config.PodUpdate) {
	if !u.Op.IsConfig() || u.Source == "" || j.bookmark.Sources[u.Source].Seen {
		return
	}
	j.bookmark = j.bookmark.with(u.Source)
	set.Readied = j.bookmark.Ready
}

// memoized is how many of the newest sets keep what views make of them.
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

// Unseen returns the names of the sources that have not been seen yet.
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

// Revision returns that of the newest update.
func (j *Journal) Revision() int64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.head
}
