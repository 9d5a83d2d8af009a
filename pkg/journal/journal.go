package journal

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
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
	// MaxUpdates and MaxBytes bound the ring, the latter by about how much memory the
	// updates' pods take. The newest update stays whatever its size. 0 stands for the
	// default.
	MaxUpdates int
	MaxBytes   int64
	// Registerer takes the journal's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Journal is the ordered series of updates and the state that they add up to. It
// is safe for concurrent use.
type Journal struct {
	instance   string
	maxUpdates int
	maxBytes   int64
	metrics    *metrics

	// mu guards what follows. It is never held while a reader is written to or a pod
	// encoded.
	mu   sync.RWMutex
	ring ring[*entry]
	// first is the revision before the first one, head the newest, compacted the newest that left the ring.
	first, head, compacted int64
	// progress is the revision up to which readers that saw nothing are told so.
	progress int64
	bytes    int64
	state    state
	byUID    map[types.UID]*Pod
	names    names
	// pending are the updates of a source set that is not complete yet.
	pending []config.PodUpdate
	// sources is replaced, not changed: frames share it.
	sources map[string]v1alpha1.SourceState
	// changed is closed and replaced when there is something new to read.
	changed chan struct{}
	cursors map[*Cursor]struct{}
	nextID  int64
	runtime runtimeState
}

// New returns an empty journal. Its instance is new, and its revisions begin at
// the present time in milliseconds: one of an earlier instance lies before them.
func New(opts Options) *Journal {
	start := time.Now().UnixMilli()
	j := &Journal{
		instance:   string(uuid.NewUUID()),
		maxUpdates: cmp.Or(opts.MaxUpdates, DefaultMaxUpdates),
		maxBytes:   cmp.Or(opts.MaxBytes, DefaultMaxBytes),
		first:      start, head: start, compacted: start, progress: start,
		state:   make(state),
		byUID:   make(map[types.UID]*Pod),
		names:   make(names),
		sources: make(map[string]v1alpha1.SourceState),
		changed: make(chan struct{}),
		cursors: make(map[*Cursor]struct{}),
	}
	for _, source := range opts.Sources {
		j.sources[source] = v1alpha1.SourceState{}
	}
	j.metrics = newMetrics(opts.Registerer, j)
	return j
}

// Append takes an update. It becomes visible once what its source set changed is
// complete, with the first update that does not have More. Append never waits for
// a reader.
//
// A SYNC is taken only while some reader asks for that operation, or one did of late:
// it would otherwise push updates out of the ring that somebody may still need.
func (j *Journal) Append(u config.PodUpdate) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !u.Op.IsConfig() {
		if u.Op == config.SYNC && !j.wantedLocked(u.Op, now) {
			return
		}
		j.commitLocked(u, nil, now)
		j.wakeLocked()
		return
	}
	j.pending = append(j.pending, u)
	if u.More {
		return
	}
	for _, u := range j.pending {
		j.commitLocked(u, nil, now)
	}
	j.pending = nil
	j.wakeLocked()
}

func (j *Journal) wakeLocked() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// commitLocked gives the update a revision and brings the state up to it.
func (j *Journal) commitLocked(u config.PodUpdate, event *v1alpha1.Event, now time.Time) *entry {
	j.head++
	e := &entry{
		revision: j.head, time: now, op: u.Op, source: u.Source, more: u.More, event: event,
		pods: make([]*Pod, len(u.Pods)), before: make([]*Pod, len(u.Pods)),
	}
	for i, object := range u.Pods {
		e.pods[i], e.before[i] = j.takeLocked(u, object)
		e.mirrors = e.mirrors || isMirrorPod(object) || (e.before[i] != nil && isMirrorPod(e.before[i].Object))
		if u.Op == config.REMOVE {
			e.named = j.names.replace(e.named, e.before[i], nil, j.head)
		} else if u.Op.IsConfig() {
			e.named = j.names.replace(e.named, e.before[i], e.pods[i], j.head)
		}
	}
	e.named = fold(e.named)
	if u.Op.IsConfig() && u.Source != "" && !j.sources[u.Source].Seen {
		j.sources = maps.Clone(j.sources)
		j.sources[u.Source] = v1alpha1.SourceState{Seen: true}
		e.readied = j.readyLocked()
	}
	e.seal(j.instance)
	j.metrics.updates.WithLabelValues(u.Op.String(), u.Source).Inc()
	j.ring.push(e)
	j.bytes += e.size
	j.compactLocked()
	return e
}

// takeLocked brings the state up to one pod of an update, and returns the pod and
// the version before it.
func (j *Journal) takeLocked(u config.PodUpdate, object *v1.Pod) (pod, before *Pod) {
	key := podKey{u.Source, object.UID}
	before = j.state[key]
	if before != nil && (before.Object == object || u.Op == config.REMOVE) {
		pod = before
	} else {
		pod = newPod(u.Source, object, j.head, j.metrics)
	}
	switch {
	case u.Op == config.REMOVE:
		delete(j.state, key)
		if j.byUID[object.UID] == before {
			j.forgetUIDLocked(object.UID)
		}
	case u.Op.IsConfig():
		j.state[key] = pod
		j.byUID[object.UID] = pod
	}
	return pod, before
}

// forgetUIDLocked takes it that a source has no pod of that UID any more: another may
// have one still.
func (j *Journal) forgetUIDLocked(uid types.UID) {
	delete(j.byUID, uid)
	for _, source := range slices.Sorted(maps.Keys(j.sources)) {
		if pod := j.state[podKey{source, uid}]; pod != nil {
			j.byUID[uid] = pod
			return
		}
	}
}

// compactLocked lets go of the oldest updates until the ring is within its bounds.
// The newest one stays.
func (j *Journal) compactLocked() {
	for j.ring.len() > 1 && (j.ring.len() > j.maxUpdates || j.bytes > j.maxBytes) {
		e := j.ring.pop()
		j.bytes -= e.size
		j.compacted = e.revision
	}
}

func (j *Journal) readyLocked() bool {
	for _, s := range j.sources {
		if !s.Seen {
			return false
		}
	}
	return true
}

// Progress has readers that were given nothing of late told how far the stream is,
// so that what they resume from does not grow old.
func (j *Journal) Progress() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress < j.head {
		j.progress = j.head
		j.wakeLocked()
	}
}

// WaitReady waits until every source has been seen. Its error is the context's cause.
func (j *Journal) WaitReady(ctx context.Context) error {
	for {
		j.mu.RLock()
		ready, changed := j.readyLocked(), j.changed
		j.mu.RUnlock()
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Ready tells whether every source has been seen.
func (j *Journal) Ready() bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.readyLocked()
}

// Unseen returns the names of the sources that have not been seen yet.
func (j *Journal) Unseen() []string {
	j.mu.RLock()
	defer j.mu.RUnlock()
	var unseen []string
	for name, s := range j.sources {
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

// State is the present state.
type State struct {
	Instance string
	Revision int64
	// Pods are by source, namespace and name.
	Pods     []*Pod
	Bookmark *Bookmark
}

// State returns the present state.
func (j *Journal) State() State {
	j.mu.RLock()
	pods := slices.Collect(maps.Values(j.state))
	state := State{Instance: j.instance, Revision: j.head, Pods: pods, Bookmark: j.bookmarkLocked().Bookmark}
	j.mu.RUnlock()
	sortPods(pods)
	return state
}

// ByUID returns the present pod of that UID, or nil.
func (j *Journal) ByUID(uid types.UID) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.byUID[uid]
}

// GetPodByUID returns the present pod of that UID.
func (j *Journal) GetPodByUID(uid types.UID) (*v1.Pod, bool) {
	p := j.ByUID(uid)
	if p == nil {
		return nil, false
	}
	return p.Object, true
}
