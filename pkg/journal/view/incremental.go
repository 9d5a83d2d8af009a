package view

import (
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// incremental tells updates as the merge emits them.
type incremental struct {
	stream

	// open is the source whose ADD of the present pods has been begun and continues.
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
	f := &Frame{Instance: v.journal.Instance(), Op: config.ADD, Source: source}
	for i, p := range pods {
		switch {
		case p.Source != source:
			return v.whole(f), i
		case !v.selector.Matches(p):
			continue
		case len(f.Pods) > 0 && f.size+p.Size() > PieceSize:
			f.Continues, v.open = true, source
			return f, i
		}
		f.Pods = append(f.Pods, p)
		f.size += p.Size()
	}
	if !last { // what follows may be of the same source
		if nonempty(f) != nil {
			f.Continues, v.open = true, source
		}
		return nonempty(f), len(pods)
	}
	return v.whole(f), len(pods)
}

// whole returns the last piece of a source's ADD; nil where there is none.
func (v *incremental) whole(f *Frame) *Frame {
	if v.open == "" {
		return nonempty(f)
	}
	v.open = ""
	return f
}

// close returns an empty last piece: of what was left of a source nothing was selected.
func (v *incremental) close() *Frame {
	f := &Frame{Instance: v.journal.Instance(), Op: config.ADD, Source: v.open}
	v.open = ""
	return f
}

func nonempty(f *Frame) *Frame {
	if len(f.Pods) == 0 {
		return nil
	}
	return f
}

func (v *incremental) frames(set *journal.Set) ([]*Frame, error) {
	return journal.Once(&set.Memo, v.key(), func() (frames []*Frame, _ error) {
		for _, u := range set.Updates {
			frames = append(frames, v.update(u)...)
		}
		return frames, nil
	})
}

// update returns the frames of one update: as it is for a subscriber that takes all pods,
// and otherwise with the pods that come to be selected as ADD and those that cease to be
// as REMOVE.
func (s *stream) update(u *journal.Update) []*Frame {
	sel := &s.selector
	whole := frameOf(s.journal.Instance(), u)
	switch {
	case sel.Source != "" && sel.Source != u.Source:
		return nil
	case sel.selects(u.Mirrors) || len(u.Pods) == 0: // without pods: a source's first word
		return s.wanted(whole, batch{op: u.Op, pods: u.Pods, always: true})
	case !u.Op.IsConfig():
		return s.wanted(whole, batch{op: u.Op, pods: sel.filter(u.Pods), always: u.Op == config.HOUSEKEEPING})
	}
	var removes, adds, same []*journal.Pod
	u = u.Once()
	for i, p := range u.Pods {
		was := sel.was(u.Before[i])
		is := u.Op != config.REMOVE && sel.Matches(p)
		switch {
		case was && is:
			same = append(same, p)
		case is:
			adds = append(adds, p)
		case was:
			removes = append(removes, u.Before[i])
		}
	}
	return s.wanted(whole, batch{op: config.REMOVE, pods: removes}, batch{op: config.ADD, pods: adds}, batch{op: u.Op, pods: same})
}

// wanted returns the frames of those batches whose operations are wanted.
func (s *stream) wanted(whole *Frame, batches ...batch) []*Frame {
	return pieces(whole, slices.DeleteFunc(batches, func(b batch) bool { return !s.ops[b.op] })...)
}
