package journal

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// intake gives revisions to updates, and writes the next table. While a set is being stored, the intake is ahead of
// what subscribers can read.
type intake struct {
	// mu guards the fields below. It is locked before Journal.mu.
	mu sync.Mutex
	// pending are the updates of a set that is not complete yet.
	pending []config.PodUpdate
	// table is the newest one. The fields after it are of the next one.
	table    *Table
	head     int64
	names    names
	uids     uids
	objects  objects
	bookmark *Bookmark

	// sources are those of the next table, and replaced when one changes.
	sources map[string]Source

	namespaces namespaces
	// owners returns the owners of a pod; nil if nobody knows them.
	owners func(*Pod) []v1alpha1.Owner
}

func newIntake(head int64, bookmark *Bookmark) intake {
	return intake{
		head: head, bookmark: bookmark, objects: newObjects(),
		names:      names{pods: btree.New(degree, before)},
		uids:       uids{pods: make(map[types.UID][]*Pod), at: make(map[types.UID]struct{})},
		namespaces: namespaces{pods: make(map[string]int), metadata: make(map[string]*metav1.ObjectMeta)},
	}
}

// The journal is a handler of the sync loop, which calls the methods below with its updates.

// HandlePodAdditions appends the update.
func (j *Journal) HandlePodAdditions(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodUpdates appends the update.
func (j *Journal) HandlePodUpdates(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodRemoves appends the update.
func (j *Journal) HandlePodRemoves(_ context.Context, update config.PodUpdate) { j.Append(update) }

// HandlePodReconcile appends the update.
func (j *Journal) HandlePodReconcile(_ context.Context, update config.PodUpdate) { j.Append(update) }

// Append appends an update. The updates of one set become visible together, with the
// first update that does not have More. Append never waits for a subscriber.
//
// A SYNC is recorded only if a subscriber requests the operation or requested it within
// the last minutes. Otherwise SYNCs would push updates out of the ring that are still
// needed.
func (j *Journal) Append(u config.PodUpdate) {
	now := time.Now()
	if !u.Op.IsConfig() {
		j.appendEvent(u, nil, now)
		return
	}
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pending = append(in.pending, u)
	if u.More {
		return
	}
	pods := make([][]*Pod, len(in.pending))
	for i, u := range in.pending {
		pods[i] = prepare(u)
	}
	before := in.bookmark
	set := j.number(in.pending, pods, nil, now)
	set.Origin = j.originOf(&u)
	j.commit(set)
	in.pending = reuse(in.pending)
	if in.bookmark != before && (in.bookmark.Ready || before.Restored(u.Source) || in.bookmark.Known() && !before.Known()) {
		j.announce(now)
	}
}

// prepare makes the versions of the update's pods. It computes the size of each pod, which takes
// time. So an event is prepared before the intake is locked.
func prepare(u config.PodUpdate) []*Pod {
	if u.Op == config.REMOVE {
		return nil // it makes no versions
	}
	pods := make([]*Pod, len(u.Pods))
	for i, object := range u.Pods {
		var status *v1.PodStatus
		if u.Statuses != nil {
			status = u.Statuses[i]
		}
		pods[i] = newPod(u.Source, object, status)
		if u.Files != nil {
			pods[i].File = u.Files[i]
		}
	}
	return pods
}

// number gives revisions to new updates, and counts them.
func (j *Journal) number(updates []config.PodUpdate, prepared [][]*Pod, event *v1alpha1.Event, now time.Time) *Set {
	set := j.intake.number(updates, prepared, event, now)
	for _, u := range set.Updates {
		j.metrics.updates.WithLabelValues(u.Op.String(), u.Source).Inc()
	}
	return set
}

// number gives revisions to the updates of a set and applies them to the state.
func (in *intake) number(updates []config.PodUpdate, prepared [][]*Pod, event *v1alpha1.Event, now time.Time) *Set {
	set := &Set{First: in.head + 1, Time: now}
	for i, u := range updates {
		pods := make([]*Pod, 2*len(u.Pods))
		update := &Update{
			First: in.head + 1, Time: now, Op: u.Op, Source: u.Source, StatusOnly: u.StatusOnly, Event: event,
			Pods: pods[:len(u.Pods):len(u.Pods)], Before: pods[len(u.Pods):],
		}
		if len(u.Pods) == 0 {
			in.head++
		}
		for k, object := range u.Pods {
			in.head++
			var next *Pod
			if prepared[i] != nil {
				next = prepared[i][k]
			}
			if u.Op == config.OWNERS {
				in.own(set, update, k, next)
			} else {
				in.applyPod(set, update, k, object, next)
			}
		}
		update.Revision = in.head
		set.Updates = append(set.Updates, update)
		if u.Op.IsConfig() && u.Source != "" && !u.StatusOnly {
			in.seen(u, now)
			if !u.More {
				in.remember(set, u.Source, u.Attributes)
			}
		}
	}
	if updates[0].Op != config.OWNERS {
		set.Names, in.head = in.names.changes(in.table.pods, in.head)
	}
	set.UIDs = in.uids.changes()
	in.changeNamespaces(set)
	set.Updates[len(set.Updates)-1].Revision = in.head
	return in.finishSet(set)
}

// applyPod applies one pod of an update to the state. prepared is its version.
func (in *intake) applyPod(set *Set, u *Update, n int, object *v1.Pod, prepared *Pod) {
	before := in.uids.find(u.Source, object.UID)
	pod := prepared
	switch {
	case u.Op == config.REMOVE && before == nil: // the merge removes only what it added
		pod = NewPod(u.Source, object).At(in.head)
	case u.Op == config.REMOVE, before != nil && before.Merged == object && (!u.Op.IsConfig() || before.Status == pod.Status):
		pod = before
	default:
		pod.Revision = in.head
		if before != nil {
			pod.Owners = before.Owners // others come with an OWNERS: not all subscribers that request owners get this update
		} else if u.Op.IsConfig() && in.owners != nil {
			pod.Owners = in.owners(pod)
		}
	}
	u.Pods[n], u.Before[n] = pod, before
	u.Mirrors = u.Mirrors || config.IsMirrorPod(object) || (before != nil && config.IsMirrorPod(before.Object))
	present := before
	if u.Op.IsConfig() {
		if present = pod; u.Op == config.REMOVE {
			present = nil
		}
		in.names.replace(before, present, in.head)
		in.uids.replace(before, present)
	}
	// A version that is no longer current belongs to the set that replaced it. Nothing
	// else holds it longer.
	if before != nil && before != present {
		set.size += int64(before.size) * memoryFactor
	}
	if pod != before && pod != present {
		set.size += int64(pod.size) * memoryFactor
	}
}

// own replaces the version of a pod by the same version with other owners, or leaves it.
func (in *intake) own(set *Set, u *Update, n int, pod *Pod) {
	before := in.uids.find(u.Source, pod.Object.UID)
	u.Pods[n], u.Before[n], u.Mirrors = pod, before, u.Mirrors || config.IsMirrorPod(pod.Object)
	if pod == before {
		return
	}
	if change, first := in.names.own(before, pod, in.head); first {
		set.Names = append(set.Names, change)
	}
	in.uids.replace(before, pod)
	set.size += int64(before.size) * encodedFactor
}

// advance returns a set without updates, with the next revision.
func (in *intake) advance(now time.Time, changes ...ObjectChange) *Set {
	in.head++
	set := &Set{First: in.head, Time: now}
	for _, c := range changes {
		in.change(set, c)
	}
	return in.finishSet(set)
}

// finishSet ends a set with the newest revision, and makes the table after it.
func (in *intake) finishSet(set *Set) *Set {
	next := *in.table
	next.revision, next.bookmark, next.sources = in.head, in.bookmark, in.sources
	for _, u := range set.Updates {
		switch {
		case u.Op == config.HOUSEKEEPING:
			next.orphans = u.Pods
		case u.Op.IsConfig(), u.Op == config.OWNERS:
			next.pods = in.names.pods.Clone()
		}
	}
	if len(set.Objects) > 0 {
		next.objects = in.objects.clone()
	}
	set.Revision, set.Bookmark, set.before, set.After = in.head, in.bookmark, in.table, &next
	set.size += set.nodes()
	in.table = set.After
	return set
}

// begin makes a table of all that the intake has.
func (in *intake) begin(revision int64) {
	in.table = &Table{
		revision: revision, bookmark: in.bookmark, pods: in.names.pods.Clone(), objects: in.objects.clone(), sources: in.sources,
	}
}

// commit makes a set visible, once it is stored. It is the only way into the ring. The
// intake is locked, so sets are committed in the order of their revisions.
func (j *Journal) commit(set *Set) {
	if j.store == nil {
		j.show(set, j.Instance())
		return
	}
	j.store.Append(set, func(c Commit) { j.show(set, c.Instance) })
}

// show replaces the table that subscribers read by the one after a set, adds the set to the ring and wakes
// the subscribers that wait. With a new instance, all subscribers are behind and start
// again.
func (j *Journal) show(set *Set, instance string) {
	set.Instance = instance
	for _, u := range set.Updates {
		u.Instance = instance
	}
	defer set.Origin.shown()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.table = set.After
	if set.count() > 0 {
		j.pushLocked(set)
	}
	if instance != j.instance {
		j.instance = instance
		j.clearLocked()
		j.compacted, j.renewed = set.Revision, set.Revision
	}
	close(j.changed)
	j.changed = make(chan struct{})
}
