package journal

import (
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// render appends the frames that the entries are to this reader. The bookmark is
// that of the present.
func (c *Cursor) render(frames []*Frame, entries []*entry, bookmark Content) []*Frame {
	for len(entries) > 0 {
		n := 1
		for entries[n-1].more && n < len(entries) {
			n++
		}
		set := entries[:n]
		entries = entries[n:]
		if c.opts.Mode == Incremental || !set[0].op.IsConfig() {
			for _, e := range set {
				frames = append(frames, c.increment(e)...)
				if c.view != nil {
					e.redo(c.view)
				}
			}
		} else {
			frames = append(frames, c.snapshot(set)...)
		}
		for _, e := range set {
			if e.readied {
				ready := bookmark
				ready.Revision = set[n-1].revision
				frames = append(frames, newFrame(ready))
			}
		}
	}
	return frames
}

// increment returns the frames of one entry: as it is for a reader that takes all
// pods, and otherwise with the pods that come to be selected as ADD and those that
// cease to be as REMOVE.
func (c *Cursor) increment(e *entry) []*Frame {
	switch {
	case c.opts.ByName && c.opts.Selector.everything():
		return e.namedFrames()
	case c.opts.ByName:
		return e.renderNamed(c.journal.instance, &c.opts.Selector)
	case c.opts.Selector.Source != "" && c.opts.Selector.Source != e.source:
		return nil
	case c.opts.Selector.takes(e) || len(e.pods) == 0: // without pods: a source's first word
		if !c.opts.Ops[e.op] {
			return nil
		}
		return e.frames()
	}
	var removes, adds, same []*Pod
	for i, p := range e.pods {
		was := e.before[i] != nil && c.opts.Selector.Matches(e.before[i])
		is := e.op != config.REMOVE && c.opts.Selector.Matches(p)
		switch {
		case !e.op.IsConfig() && is:
			same = append(same, p)
		case !e.op.IsConfig():
		case was && is:
			same = append(same, p)
		case is:
			adds = append(adds, p)
		case was:
			removes = append(removes, e.before[i])
		}
	}
	return c.selected(e, []batch{{op: config.REMOVE, pods: removes}, {op: config.ADD, pods: adds}, {op: e.op, pods: same, always: e.op == config.HOUSEKEEPING}})
}

// batch is the pods of an update that have one operation in common.
type batch struct {
	op   config.PodOperation
	pods []*Pod
	// always: that there are none is worth telling.
	always bool
}

// selected returns the frames of those batches whose operations are wanted.
func (c *Cursor) selected(e *entry, batches []batch) []*Frame {
	batches = slices.DeleteFunc(batches, func(b batch) bool { return !c.opts.Ops[b.op] })
	return e.inOrder(c.journal.instance, batches)
}

// inOrder returns the frames of the batches that have pods. They are of one revision,
// so all but the last have Continues.
func (e *entry) inOrder(instance string, batches []batch) (frames []*Frame) {
	for _, b := range batches {
		if len(b.pods) == 0 && !b.always {
			continue
		}
		frames = append(frames, split(Content{
			Instance: instance, Revision: e.revision, Time: e.time,
			Op: b.op, Source: e.source, Pods: b.pods, Event: e.event,
		})...)
	}
	for i, f := range frames {
		f.Continues = i < len(frames)-1
	}
	return frames
}

// snapshot returns the frames of what one source set changed, in the snapshot
// modes, and brings the reader's view up to it.
//
// kubelet: pkg/kubelet/config/config.go Merge, up to v1.34.
func (c *Cursor) snapshot(set []*entry) (frames []*Frame) {
	// revision is that of the last entry that the SET stands for.
	var revision *entry
	for _, e := range set {
		e.redo(c.view)
		if !c.concerns(e) {
			continue
		}
		if c.reselects(e) {
			revision = e
		}
		switch e.op {
		case config.ADD, config.REMOVE:
			revision = e
		case config.UPDATE, config.DELETE:
			if c.opts.Mode == Snapshot {
				revision = e
			}
		}
	}
	if revision != nil && c.opts.Ops[config.SET] {
		frames = split(Content{
			Instance: c.journal.instance, Revision: revision.revision, Time: revision.time,
			Op: config.SET, Source: revision.source, Pods: c.opts.Selector.filter(c.view.sorted()),
		})
	}
	if c.opts.Mode == Snapshot {
		return frames
	}
	var changes []*Frame
	for _, e := range set {
		if e.op == config.UPDATE || e.op == config.DELETE {
			changes = append(changes, c.changed(e)...)
		}
	}
	// The SET comes first and stands for a later update, where that has a pod come to be
	// selected. It is of the same revision as the first change then, and continues: who
	// resumes from there is told the later updates again.
	if len(frames) > 0 && len(changes) > 0 && frames[0].Revision >= changes[0].Revision {
		for _, f := range frames {
			f.Revision, f.Continues = changes[0].Revision, true
		}
	}
	return append(frames, changes...)
}

// changed returns the frames of an entry without the pods that come to be selected or
// cease to be: those the SET has told.
func (c *Cursor) changed(e *entry) []*Frame {
	if c.opts.Selector.everything() {
		return c.increment(e)
	}
	var same []*Pod
	for i, p := range e.pods {
		if e.before[i] != nil && c.opts.Selector.Matches(e.before[i]) && c.opts.Selector.Matches(p) {
			same = append(same, p)
		}
	}
	return c.selected(e, []batch{{op: e.op, pods: same}})
}

// reselects tells whether a pod comes to be selected with the entry, or ceases to be.
func (c *Cursor) reselects(e *entry) bool {
	s := &c.opts.Selector
	if s.everything() {
		return false
	}
	for i, p := range e.pods {
		if e.before[i] != nil && s.Matches(e.before[i]) != s.Matches(p) {
			return true
		}
	}
	return false
}

// concerns tells whether the entry has a pod that is or was selected, or is the
// first word of a source without pods.
func (c *Cursor) concerns(e *entry) bool {
	s := &c.opts.Selector
	if s.everything() || len(e.pods) == 0 {
		return true
	}
	for i, p := range e.pods {
		if s.Matches(p) || (e.before[i] != nil && s.Matches(e.before[i])) {
			return true
		}
	}
	return false
}
