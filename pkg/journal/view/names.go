package view

import (
	"cmp"
	"slices"
	"unique"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// NamesOptions are the options of Names.
type NamesOptions struct {
	Options

	// Since is the revision to resume from; nil to start with the current state.
	Since *int64
}

// Names starts a subscription to the pod of each name. A name that gets a pod is an ADD, a name that
// loses its pod is a REMOVE, and any other change is an UPDATE. The current pods come in the order of
// revisions. Frame.Revisions has the revision of each pod, and a client can resume after each. A
// subscriber that falls behind gets a CompactedError.
// The caller must close the cursor.
func Names(j *journal.Journal, opts NamesOptions) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts.Options)
	v := &names{lens: lens{selector: opts.Selector, fields: opts.Fields}}
	v.show(opts.scope.granted())
	c.view = v
	if opts.Since == nil {
		c.open("")
	} else if err := cmp.Or(j.Resumable("", *opts.Since, opts.Selector.recorded(nil)), opts.scope.resumable(*opts.Since)); err != nil {
		v.failed = err
	} else {
		c.resume(*opts.Since)
	}
	return c
}

type names struct {
	instance string
	lens     lens
	key      unique.Handle[namesKey]
	// failed is why the subscription can't start: the revision is compacted.
	failed error
}

func (v *names) show(g *access.Grant) {
	v.lens.grant = g
	v.key = unique.Make(namesKey{v.lens.key()})
}

func (v *names) order() journal.Order { return journal.ByName }
func (v *names) begin(s *journal.Snapshot, _ string) []*Frame {
	v.instance = s.Instance
	return nil
}

func (v *names) endSnapshot(*journal.Snapshot) []*Frame { return nil }
func (v *names) delivered(*Frame)                       {}

func (v *names) behind(err error) error { return cmp.Or(v.failed, err) }

// present returns the first pods as an ADD.
func (v *names) present(pods []*journal.Pod, _ bool) (*Frame, int) {
	f := &Frame{Instance: v.instance, Op: config.ADD}
	taken := v.lens.fill(f, pods)
	for _, p := range f.Pods {
		f.Revisions = append(f.Revisions, p.Revision)
	}
	return nonempty(f), taken
}

func (f *Frame) put(p *journal.Pod, revision int64) {
	f.addPod(p)
	f.Revisions = append(f.Revisions, revision)
}

// namesKey and uidsKey are the keys of these views in the memo of a set.
type (
	namesKey struct{ lens lensKey }
	uidsKey  struct{ lens lensKey }
)

func (v *names) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() []*Frame { return changes(&v.lens, set, set.Names) })
}

// changes returns the frames of changes. Consecutive changes with the same operation are
// in one frame.
func changes(l *lens, set *journal.Set, all []journal.Change) (frames []*Frame) {
	var last *Frame
	for _, change := range all {
		was, is := l.change(change.Before, change.After)
		op, pod := config.UPDATE, is
		switch {
		case was == nil && is == nil, was != nil && is != nil && change.OwnersOnly():
			continue
		case was == nil:
			op = config.ADD
		case is == nil:
			op, pod = config.REMOVE, was
		}
		if last == nil || last.Op != op || !last.fits(pod) {
			last = &Frame{Instance: set.Instance, Op: op, Time: set.Time}
			frames = append(frames, last)
		}
		last.put(pod, change.Revision)
	}
	return frames
}

// UIDs starts a subscription to the pod of each UID, for a protocol without a reset. A
// UID that gets a pod is an ADD, a UID that loses its pod a REMOVE, any other change an
// UPDATE. A subscriber that falls behind gets the difference. In it, the REMOVE of a pod
// has only name, namespace and UID. The caller must close the cursor.
func UIDs(j *journal.Journal, opts Options) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts)
	v := &uids{lens: lens{selector: opts.Selector, fields: opts.Fields}, held: make(map[types.UID]*held)}
	v.show(opts.scope.granted())
	c.view = v
	c.open("")
	return c
}

type uids struct {
	instance string
	lens     lens
	key      unique.Handle[uidsKey]
	// held is what the subscriber has. It has no pods, so it keeps none in memory.
	held map[types.UID]*held
}

// held identifies the version of a pod that a subscriber has.
type held struct {
	name     types.NamespacedName
	revision int64
}

// show makes the subscriber get all pods again: it may have them in other forms.
func (v *uids) show(g *access.Grant) {
	v.lens.grant = g
	v.key = unique.Make(uidsKey{v.lens.key()})
	for _, h := range v.held {
		h.revision = 0
	}
}

func (v *uids) order() journal.Order { return journal.ByUID }

// begin returns a REMOVE of the pods that the subscriber has and that no longer exist.
func (v *uids) begin(s *journal.Snapshot, _ string) []*Frame {
	v.instance = s.Instance
	if len(v.held) == 0 {
		return nil
	}
	present, err := s.Pods(0, s.Len)
	if err != nil { // the next read of the snapshot returns the error too
		return nil
	}
	there := make(map[types.UID]bool, len(present))
	for _, p := range present {
		there[p.Object.UID] = true
	}
	var gone []*journal.Pod
	for uid, h := range v.held {
		if !there[uid] {
			gone = append(gone, h.gone(uid))
		}
	}
	slices.SortFunc(gone, func(a, b *journal.Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) })
	return pieces(&Frame{Instance: v.instance}, batch{op: config.REMOVE, pods: gone})
}

// gone returns the pod for a REMOVE.
func (h *held) gone(uid types.UID) *journal.Pod {
	return journal.NewPod("", &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: uid, Namespace: h.name.Namespace, Name: h.name.Name,
	}})
}

func (v *uids) endSnapshot(*journal.Snapshot) []*Frame { return nil }

// present returns the first pods of which the subscriber does not have the current
// version, as long as their operation is the same.
func (v *uids) present(pods []*journal.Pod, _ bool) (*Frame, int) {
	var f *Frame
	for i, p := range pods {
		before := v.held[p.Object.UID]
		op := config.ADD
		switch seen := v.lens.see(p); {
		case seen == nil && before == nil:
			continue
		case seen == nil:
			op, p = config.REMOVE, before.gone(p.Object.UID)
		case before != nil && before.revision == p.Revision:
			continue
		case before != nil:
			op, p = config.UPDATE, seen
		default:
			p = seen
		}
		if f == nil {
			f = &Frame{Instance: v.instance, Op: op}
		} else if f.Op != op || !f.fits(p) {
			return f, i
		}
		f.addPod(p)
	}
	return f, len(pods)
}

// delivered records what the subscriber has.
func (v *uids) delivered(f *Frame) {
	for _, p := range f.Pods {
		if f.Op == config.REMOVE {
			delete(v.held, p.Object.UID)
			continue
		}
		h := v.held[p.Object.UID]
		if h == nil {
			h = new(held)
			v.held[p.Object.UID] = h
		}
		h.name.Namespace, h.name.Name, h.revision = p.Object.Namespace, p.Object.Name, p.Revision
	}
}

// behind: the subscriber gets the difference.
func (v *uids) behind(error) error { return nil }

func (v *uids) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() []*Frame { return changes(&v.lens, set, set.UIDs) })
}
