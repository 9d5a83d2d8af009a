package view

import (
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// incremental sends updates as the merge emits them.
type incremental struct {
	stream

	// open is the source whose ADD of the current pods has started and continues.
	open string
}

func (v *incremental) begin(s *journal.Snapshot, why string) []*Frame {
	v.open = ""
	return v.stream.begin(s, why)
}

// present returns the first pods of one source as a piece of an ADD.
func (v *incremental) present(pods []*journal.Pod, last bool) (*Frame, int) {
	source := pods[0].Source
	if !v.ops[config.ADD] {
		return nil, len(pods)
	}
	if v.open != "" && v.open != source {
		return v.close(), 0
	}
	f := &Frame{Instance: v.instance, Op: config.ADD, Source: source, Restored: v.sources.Restored(source), Owners: v.owners}
	n := slices.IndexFunc(pods, func(p *journal.Pod) bool { return p.Source != source })
	ends := last || n >= 0 // otherwise, more pods of the source may follow
	if n < 0 {
		n = len(pods)
	}
	taken := v.lens.fill(f, pods[:n])
	if ends && taken == n {
		return v.whole(f), n
	}
	if nonempty(f) != nil {
		f.Continues, v.open = true, source
	}
	return nonempty(f), taken
}

// whole returns the last piece of a source's ADD; nil for none.
func (v *incremental) whole(f *Frame) *Frame {
	if v.open == "" {
		return nonempty(f)
	}
	v.open = ""
	return f
}

// close returns an empty last piece: none of the source's remaining pods is selected.
func (v *incremental) close() *Frame {
	f := &Frame{Instance: v.instance, Op: config.ADD, Source: v.open, Restored: v.sources.Restored(v.open)}
	v.open = ""
	return f
}

func nonempty(f *Frame) *Frame {
	if len(f.Pods) == 0 {
		return nil
	}
	return f
}

func (v *incremental) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() (frames []*Frame) {
		for _, u := range set.Updates {
			frames = append(frames, v.update(u)...)
		}
		return v.owned(frames...)
	})
}

// update returns the frames of one update. A subscriber that sees all pods gets it as it is.
// For others, pods that they start to see are in an ADD, and pods that they no longer see in a
// REMOVE.
func (s *stream) update(u *journal.Update) []*Frame {
	l := &s.lens
	whole := frameOf(u)
	switch {
	case l.selector.Source != "" && l.selector.Source != u.Source:
		return nil
	case l.selects(u.Mirrors) || len(u.Pods) == 0: // no pods: the first set of a source
		return s.wanted(whole, batch{op: u.Op, pods: u.Pods, always: true})
	case !u.Op.IsConfig() && u.Op != config.OWNERS:
		return s.wanted(whole, batch{op: u.Op, pods: l.filter(u.Pods), always: u.Op == config.HOUSEKEEPING})
	}
	var removes, adds, same []*journal.Pod
	u = u.Once()
	for i := range u.Pods {
		switch was, is := l.changeIn(u, i); {
		case was != nil && is != nil:
			same = append(same, is)
		case is != nil:
			adds = append(adds, is)
		case was != nil:
			removes = append(removes, was)
		}
	}
	return s.wanted(whole, batch{op: config.REMOVE, pods: removes}, batch{op: config.ADD, pods: adds}, batch{op: u.Op, pods: same})
}

// wanted returns the frames of the batches with requested operations.
func (s *stream) wanted(whole *Frame, batches ...batch) []*Frame {
	return pieces(whole, slices.DeleteFunc(batches, func(b batch) bool { return !s.ops[b.op] })...)
}
