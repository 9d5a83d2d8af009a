package view

import (
	"github.com/podconfigd/podconfigd/internal/podmask"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// lens gives what a subscriber sees of a pod: first the access rules decide on the form, then
// the subscriber selects among the pods in that form. So what is hidden can't be selected by. At
// the end, only the requested fields stay.
type lens struct {
	selector Selector
	// grant is nil if the subscriber may see everything.
	grant *access.Grant
	// fields are those that the subscriber requests; nil for all.
	fields *podmask.Mask
}

// plain reports whether the subscriber gets pods as they are.
func (l *lens) plain() bool { return l.grant == nil && l.fields == nil }

// everything reports whether the subscriber gets all pods as they are.
func (l *lens) everything() bool { return l.selects(true) }

// selects reports whether the subscriber gets all pods of an update as they are. mirrors is
// whether it has mirror pods.
func (l *lens) selects(mirrors bool) bool { return l.plain() && l.selector.selects(mirrors) }

// see returns the pod as the subscriber gets it; nil for none.
func (l *lens) see(p *journal.Pod) *journal.Pod {
	if p == nil {
		return nil
	}
	if l.grant != nil {
		if p = shown(l.grant, p); p == nil {
			return nil
		}
	}
	if !l.selector.Matches(p) {
		return nil
	}
	if l.fields != nil {
		return p.Only(l.fields)
	}
	return p
}

// shown returns the pod in the form that the grant gives; nil for none.
func shown(g *access.Grant, p *journal.Pod) *journal.Pod {
	form := g.Of(p.Source, p.Object)
	switch form.Level() {
	case access.None:
		return nil
	case access.Full:
		return p
	}
	return p.Derive(form, form.Apply)
}

// filter returns the pods that the subscriber gets.
func (l *lens) filter(pods []*journal.Pod) []*journal.Pod {
	if l.everything() {
		return pods
	}
	seen := make([]*journal.Pod, 0, len(pods))
	for _, p := range pods {
		if p = l.see(p); p != nil {
			seen = append(seen, p)
		}
	}
	return seen
}

// fill adds the pods that the subscriber gets to the frame, until one does not fit. It returns how
// many it took.
func (l *lens) fill(f *Frame, pods []*journal.Pod) (taken int) {
	for i, p := range pods {
		if p = l.see(p); p == nil {
			continue
		}
		if !f.fits(p) {
			return i
		}
		f.add(p)
	}
	return len(pods)
}

// change returns what the subscriber sees of a change of a pod: the version before and the
// version after, nil for none. Both are nil if nothing changes for the subscriber.
func (l *lens) change(before, after *journal.Pod) (was, is *journal.Pod) {
	was, is = l.see(before), l.see(after)
	if was == nil || is == nil || l.plain() || was == before || is == after {
		return was, is
	}
	same := access.Same
	if l.whole(before) && l.whole(after) {
		same = access.Equal // only the requested fields leave out something
	}
	if same(was.Object, is.Object) {
		return nil, nil
	}
	return was, is
}

// whole reports whether the subscriber may see all of the pod.
func (l *lens) whole(p *journal.Pod) bool {
	return l.grant.Of(p.Source, p.Object).Level() == access.Full
}

// changeIn returns the change of a pod of an update.
func (l *lens) changeIn(u *journal.Update, n int) (was, is *journal.Pod) {
	if u.Op == config.REMOVE {
		return l.change(u.Before[n], nil)
	}
	return l.change(u.Before[n], u.Pods[n])
}

// lensKey identifies a lens: two subscribers with the same key get the same.
type lensKey struct {
	selection selection
	grant     access.Key
	fields    podmask.Key
}

func (l *lens) key() lensKey { return lensKey{l.selector.selection(), l.grant.Key(), l.fields.Key()} }
