package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// ObjectsOptions are the options of Objects. Selector and Fields are for pods.
type ObjectsOptions struct {
	Options
	Kind journal.Kind
	// Match selects objects; nil selects all.
	Match func(*journal.Object) bool
	// Since is the revision to resume from; nil to start with the current objects.
	Since *int64
}

// ObjectEvent is the change of an object: an ADD, an UPDATE or a REMOVE. A client can resume after
// each event.
type ObjectEvent struct {
	Op       config.PodOperation
	Object   *journal.Object
	Revision int64
}

// Objects starts a subscription to the nodes or the namespaces. Frame.Objects has their changes. A subscriber that sees
// not all pods sees the namespaces in which it sees one. The caller must close the cursor. A subscriber that can't
// resume, or falls behind, gets a CompactedError from Next.
func Objects(j *journal.Journal, opts ObjectsOptions) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts.Options)
	v := &objects{ObjectsOptions: opts, names: names{lens: lens{grant: opts.scope.granted()}}, current: make(map[string]*journal.Object)}
	c.view = v
	v.failed = v.start(c)
	c.subscriber.MoveTo(c.position)
	return c
}

// objects sends the changes of nodes or namespaces. It has no current pods, and fails as the view of names does.
type objects struct {
	ObjectsOptions
	names
	// current are the objects at the position of the cursor. pods is the number of pods that the subscriber sees in each
	// namespace, unless it sees all.
	current map[string]*journal.Object
	pods    map[string]int
	// since is the revision from which the subscriber resumed. It has the earlier events.
	since int64
	// applied is the revision of the last set that was applied, and last has the frames of its events. Those
	// that the cursor has returned are nil.
	applied int64
	last    []*Frame
}

func (v *objects) start(c *Cursor) error {
	if v.Since != nil {
		v.since = *v.Since
		if err := cmp.Or(c.journal.ObjectsResumable(v.since), c.scope.resumable(v.since)); err != nil {
			return err
		}
	}
	// The events of a set describe the whole set. So within a set, the subscription
	// starts before it.
	all, revision, err := c.journal.Objects(v.Kind, v.since)
	if err != nil {
		return err
	}
	for _, o := range all {
		v.current[o.Object.GetName()] = o
	}
	if v.lens.grant != nil && v.Kind == journal.Namespaces {
		pods, _, err := c.journal.Named(revision)
		if err != nil {
			return err
		}
		v.pods = make(map[string]int)
		for _, p := range pods {
			v.count(p, 1)
		}
	}
	c.position, c.sent = revision, max(revision, v.since)
	if v.Since != nil {
		return nil
	}
	var events []ObjectEvent
	for _, o := range all {
		if v.shown(o) {
			events = append(events, v.event(config.ADD, o, o.Revision))
		}
	}
	c.opening = &opening{snapshot: &journal.Snapshot{Revision: revision}, begin: framesOfObjects(events)}
	return nil
}

// event returns an event with the object as the subscriber sees it.
func (v *objects) event(op config.PodOperation, o *journal.Object, revision int64) ObjectEvent {
	if v.lens.grant != nil {
		o = withoutTraces(o)
	}
	return ObjectEvent{op, o, revision}
}

// framesOfObjects returns the events, in the order of revisions, in frames of about PieceSize; none without events. A larger
// object has its own frame.
func framesOfObjects(events []ObjectEvent) (frames []*Frame) {
	slices.SortFunc(events, func(a, b ObjectEvent) int { return cmp.Compare(a.Revision, b.Revision) })
	var last *Frame
	for _, e := range events {
		size := e.Object.Size()
		if last == nil || last.size+size > PieceSize {
			last = new(Frame)
			frames = append(frames, last)
		}
		last.Objects, last.Revision, last.size = append(last.Objects, e), e.Revision, last.size+size
	}
	return frames
}

// delivered drops a frame: an object that is no longer current is held no longer than it is sent.
func (v *objects) delivered(f *Frame) {
	if i := slices.Index(v.last, f); i >= 0 {
		v.last[i] = nil
	}
}

// count counts a pod that the subscriber sees.
func (v *objects) count(p *journal.Pod, n int) {
	if v.lens.see(p) != nil {
		v.pods[p.Object.Namespace] += n
	}
}

// shown reports whether the subscriber has the object at this position.
func (v *objects) shown(o *journal.Object) bool {
	return o != nil && (v.pods == nil || v.pods[o.Object.GetName()] > 0) && (v.Match == nil || v.Match(o))
}

// frames returns the frames of the events of a set. The cursor can ask for them again, for those that it has not returned.
func (v *objects) frames(set *journal.Set) []*Frame {
	if set.Revision != v.applied {
		events := slices.DeleteFunc(v.apply(set), func(e ObjectEvent) bool { return e.Revision <= v.since })
		v.applied, v.last = set.Revision, framesOfObjects(events)
	}
	return v.last
}

// apply applies a set and returns its events.
func (v *objects) apply(set *journal.Set) (events []ObjectEvent) {
	if len(set.Objects) == 0 && (v.pods == nil || len(set.Names) == 0) {
		return nil // usually
	}
	before, changed := make(map[string]*journal.Object), make(map[string]int64)
	touch := func(name string, revision int64) {
		if _, ok := changed[name]; !ok {
			if o := v.current[name]; v.shown(o) {
				before[name] = o
			}
		}
		changed[name] = max(changed[name], revision)
	}
	for i := range set.Objects {
		if change := &set.Objects[i]; change.Kind == v.Kind {
			touch(change.Name(), change.Revision)
		}
	}
	if v.pods != nil {
		for _, change := range set.Names {
			touch(cmp.Or(change.After, change.Before).Object.Namespace, change.Revision)
			v.count(change.Before, -1)
			v.count(change.After, 1)
		}
	}
	for i := range set.Objects {
		if change := &set.Objects[i]; change.Kind == v.Kind {
			if change.After != nil {
				v.current[change.Name()] = change.After
			} else {
				delete(v.current, change.Name())
			}
		}
	}
	for name := range maps.Keys(changed) {
		was, is := before[name], v.current[name]
		if !v.shown(is) {
			is = nil
		}
		switch {
		case was == is:
		case was == nil:
			events = append(events, v.event(config.ADD, is, changed[name]))
		case is == nil:
			events = append(events, v.event(config.REMOVE, was, changed[name]))
		default:
			events = append(events, v.event(config.UPDATE, is, changed[name]))
		}
	}
	return events
}
