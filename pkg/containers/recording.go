package containers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// syncPeriod is the time between two looks whether the runtime has been listed.
	syncPeriod = 100 * time.Millisecond
	// Handles that are not found are read again after handlesPause, then after twice the time, and handlesTries times in two minutes.
	handlesPause = time.Second
	handlesTries = 8
)

// recording is one instance of the stream. Only the goroutine of Stream.Run changes its rows.
type recording struct {
	opts     *Options
	instance string
	// wake has an element if there may be inputs, and unread one if handles may have to be read.
	wake, unread chan struct{}

	inputMu sync.Mutex // guards what follows. Who locks it locks nothing else: see pleg.Generator.Follow.
	inputs  []input
	// missing has the running containers without handles.
	missing map[string]missing

	mu sync.Mutex // guards what follows
	// rows has the containers by ID, and pods the IDs of the containers of each pod.
	rows map[string]*row
	pods map[types.UID]map[string]bool
	// changes are the newest ones. The revision of the last one is revision. bytes is the size of their rows.
	changes  []change
	revision int64
	bytes    int
	// begun is true if changes have revisions, and synced if the rows are all containers of the runtime.
	begun, synced bool
	// ended is why the recording has ended; empty before.
	ended string
	// changed is closed at the next change.
	changed chan struct{}
}

// missing is a container without handles.
type missing struct {
	sandbox string
	// tries is how often its handles were read, and due when they are read next.
	tries int
	due   time.Time
}

// change is a change of a container. before is nil for a new one.
type change struct {
	time          time.Time
	before, after *row
	// removed is true if the runtime has removed the container. after is how it was at last.
	removed bool
}

// input is something that changes a row.
type input struct {
	// found is a change of a container in the runtime; nil for another input.
	found *pleg.Found
	// handles has the handles of a container; nil for another input.
	handles *v1alpha1.LookupContainer
	// listed is true if the devices of containers may have changed.
	listed bool
}

func newRecording(opts *Options, revision int64) *recording {
	return &recording{
		opts: opts, instance: string(uuid.NewUUID()), revision: revision,
		wake: make(chan struct{}, 1), unread: make(chan struct{}, 1), missing: make(map[string]missing),
		rows: make(map[string]*row), pods: make(map[types.UID]map[string]bool), changed: make(chan struct{}),
	}
}

// push adds an input. It does not block.
func (r *recording) push(in input) {
	r.inputMu.Lock()
	defer r.inputMu.Unlock()
	r.inputs = append(r.inputs, in)
	await.Signal(r.wake)
}

// apply applies the inputs. It reports false if the recording has ended.
func (r *recording) apply() bool {
	r.inputMu.Lock()
	inputs := r.inputs
	r.inputs = nil
	r.inputMu.Unlock()
	for _, in := range inputs {
		switch {
		case in.found != nil:
			r.found(in.found)
		case in.handles != nil:
			r.mu.Lock()
			before := r.rows[in.handles.ID]
			r.mu.Unlock()
			if before != nil {
				r.put(before, before.withHandles(in.handles), false)
			}
		case in.listed:
			r.listed()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended == ""
}

// begin makes the rows those from which changes are counted.
func (r *recording) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
}

// sync reports whether the runtime has been listed.
func (r *recording) sync() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.synced && r.opts.Runtime.Behind(time.Time{}) == nil {
		r.synced = true
		r.announce()
	}
	return r.synced
}

// end ends the recording, and returns its last revision.
func (r *recording) end(why string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = why
	r.announce()
	return r.revision
}

// release forgets what an ended recording has: a subscriber that does not read holds the recording.
func (r *recording) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.pods, r.changes = nil, nil, nil
}

// announce wakes the subscribers. The caller has locked mu.
func (r *recording) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// found applies a change of a container in the runtime.
func (r *recording) found(f *pleg.Found) {
	before := r.row(f.Container.ID)
	after := newRow(r.opts.Lookup, f, before)
	removed := !f.Ended.IsZero()
	if removed && before == nil {
		return
	}
	if resources := r.opts.Lookup.ResourcesOf(after.pod, f.Container.Name); resources != nil {
		after = after.withResources(resources)
	}
	r.put(before, after, removed)
}

// row returns the row of a container, or nil.
func (r *recording) row(id string) *row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows[id]
}

// put replaces a row, or removes it.
func (r *recording) put(before, after *row, removed bool) {
	if before != nil && !removed && before.equal(after) {
		return
	}
	id, uid := after.recorded.Container.ID, after.recorded.UID
	r.mu.Lock()
	defer r.mu.Unlock()
	if before != nil { // it can be of another pod by now
		was := before.recorded.UID
		if delete(r.pods[was], id); len(r.pods[was]) == 0 {
			delete(r.pods, was)
		}
	}
	if removed {
		delete(r.rows, id)
	} else {
		r.rows[id] = after
		if r.pods[uid] == nil {
			r.pods[uid] = make(map[string]bool)
		}
		r.pods[uid][id] = true
	}
	r.miss(&after.container.LookupContainer, !removed && after.runs() && after.container.PID == 0)
	if !r.begun {
		return
	}
	r.revision++
	r.changes = append(r.changes, change{time.Now(), before, after, removed})
	r.bytes += after.size()
	if len(r.changes) >= 2*maxChanges || r.bytes > 2*maxBytes {
		r.trim()
	}
	r.announce()
}

// trim removes the oldest changes beyond the limits. The caller has locked mu.
func (r *recording) trim() {
	n := 0
	for n < len(r.changes)-maxChanges || r.bytes > maxBytes {
		r.bytes -= r.changes[n].after.size()
		n++
	}
	r.changes = slices.Clone(r.changes[n:])
}

// after returns the changes after a revision, at most most. It reports false if some have left the ring.
func (r *recording) after(revision int64, most int) (changes []change, ok bool) {
	n := r.revision - revision
	if n < 0 || n > int64(min(len(r.changes), maxChanges)) {
		return nil, false
	}
	rest := r.changes[len(r.changes)-int(n):]
	return rest[:min(len(rest), most)], true
}

// present returns the rows, ordered by pod and then by creation. The caller has locked mu.
func (r *recording) present() []*row {
	return slices.SortedFunc(maps.Values(r.rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.recorded.UID, b.recorded.UID), a.recorded.Container.CreatedAt.Compare(b.recorded.Container.CreatedAt),
			cmp.Compare(a.recorded.Container.ID, b.recorded.Container.ID))
	})
}

// listed applies the devices that the kubelet lists.
func (r *recording) listed() {
	r.mu.Lock()
	rows := r.present()
	r.mu.Unlock()
	for _, before := range rows {
		r.put(before, before.withResources(r.opts.Lookup.ResourcesOf(before.pod, before.container.Name)), false)
	}
}

// followPods applies the changes of pods in the journal after a revision. It returns the revision that it has reached, and a channel
// that is closed at the next change.
func (r *recording) followPods(position int64) (int64, <-chan struct{}) {
	for {
		read, err := r.opts.Journal.After(position, nil, followBatch)
		if err != nil { // the changes are gone
			position = r.opts.Journal.Revision()
			r.mu.Lock()
			uids := slices.Collect(maps.Keys(r.pods))
			r.mu.Unlock()
			for _, uid := range uids {
				r.podChanged(uid)
			}
			continue
		}
		for _, set := range read.Sets {
			for _, c := range set.UIDs {
				pod := cmp.Or(c.After, c.Before).Object
				r.podChanged(pod.UID)
				r.podChanged(types.UID(pod.Annotations[v1.MirrorPodAnnotationKey]))
			}
			position = set.Revision
		}
		if read.Changed != nil {
			return position, read.Changed
		}
	}
}

// followBatch is the number of sets that are read from the journal at once.
const followBatch = 64

// podChanged applies a change of a pod of the journal to its containers.
func (r *recording) podChanged(uid types.UID) {
	r.mu.Lock()
	var rows []*row
	for _, id := range slices.Sorted(maps.Keys(r.pods[uid])) {
		rows = append(rows, r.rows[id])
	}
	r.mu.Unlock()
	for _, before := range rows {
		after := newRow(r.opts.Lookup, &before.recorded, before)
		r.put(before, after.withResources(r.opts.Lookup.ResourcesOf(after.pod, after.container.Name)), false)
	}
}

// miss says whether the handles of a container have to be read.
func (r *recording) miss(c *v1alpha1.LookupContainer, isMissing bool) {
	r.inputMu.Lock()
	defer r.inputMu.Unlock()
	if !isMissing {
		delete(r.missing, c.ID)
		return
	}
	if _, known := r.missing[c.ID]; !known {
		r.missing[c.ID] = missing{sandbox: c.SandboxID}
		await.Signal(r.unread)
	}
}

// readHandles reads the handles of running containers until the context is done.
func (r *recording) readHandles(ctx context.Context) {
	for {
		var pause <-chan time.Time
		if r.readMissing(ctx) {
			pause = time.After(handlesPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.unread:
		case <-pause:
		}
	}
}

// readMissing reads the handles that are due. It reports whether some are due later.
func (r *recording) readMissing(ctx context.Context) (later bool) {
	since := time.Now()
	r.inputMu.Lock()
	var ids []*v1alpha1.LookupContainer
	for id, m := range r.missing {
		if m.tries < handlesTries && !since.Before(m.due) {
			m.tries, m.due = m.tries+1, since.Add(handlesPause<<m.tries)
			r.missing[id] = m
			ids = append(ids, &v1alpha1.LookupContainer{ID: id, SandboxID: m.sandbox})
		}
		later = later || m.tries < handlesTries
	}
	r.inputMu.Unlock()
	for _, c := range ids {
		if ok, err := r.opts.Lookup.AddHandles(ctx, c, since); ok && err == nil {
			r.push(input{handles: c})
		}
	}
	return later
}
