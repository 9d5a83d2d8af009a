package view

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// lens makes a pod what a subscriber gets. First, the access rules decide on its form. Then the
// selector is applied to the pod in this form, so nobody can select by hidden values. Last, only the
// requested fields stay.
type lens struct {
	selector Selector
	// grant is nil if the subscriber may see everything.
	grant *access.Grant
	// fields are the fields that the subscriber requests; nil for all.
	fields *podfields.Mask
}

// plain reports whether the subscriber gets pods as they are.
func (l *lens) plain() bool { return l.grant == nil && l.fields == nil }

// everything reports whether the subscriber gets all pods as they are.
func (l *lens) everything() bool { return l.selects(true) }

// selects reports whether the subscriber gets all pods of an update as they are. mirrors is true if
// the update has mirror pods.
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
	return p.Derive(form, form.Level() > access.Metadata, form.Apply)
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
		f.addPod(p)
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
	switch u.Op {
	case config.REMOVE:
		return l.change(u.Before[n], nil)
	case config.OWNERS: // no change of the pod
		was, is = l.see(u.Before[n]), l.see(u.Pods[n])
		if was != nil && is != nil && u.Before[n] != u.Pods[n] && slices.EqualFunc(was.Owners, is.Owners, v1alpha1.Owner.Equal) {
			return nil, nil // the subscriber may not see the owners
		}
		return was, is
	}
	return l.change(u.Before[n], u.Pods[n])
}

// lensKey identifies a lens: two subscribers with the same key get the same.
type lensKey struct {
	selection selection
	grant     access.Key
	fields    podfields.MaskKey
}

func (l *lens) key() lensKey { return lensKey{l.selector.selection(), l.grant.Key(), l.fields.Key()} }

// Selector selects pods. The zero value selects all.
type Selector struct {
	Source, Namespace string
	Labels            labels.Selector
	Fields            fields.Selector
	// NoMirrorPods leaves out mirror pods: the copies of static pods that a kubelet
	// creates in the apiserver.
	NoMirrorPods bool
	// Owner selects pods with this owner; the zero value selects all.
	Owner podfields.OwnerSelector
}

// selection is a comparable form of a selector. Two subscribers with the same selection
// get the same pods.
type selection struct {
	source, namespace, labels, fields string
	noMirrorPods                      bool
	owner                             podfields.OwnerSelector
}

func (s *Selector) selection() selection {
	key := selection{source: s.Source, namespace: s.Namespace, noMirrorPods: s.NoMirrorPods, owner: s.Owner}
	if s.Labels != nil {
		key.labels = textOf(s.Labels)
	}
	if s.Fields != nil {
		key.fields = textOf(s.Fields)
	}
	return key
}

// textOf returns the selector as text. A selector that matches nothing has the same empty text as one
// that matches everything, so it gets another one here.
func textOf(s interface {
	fmt.Stringer
	Empty() bool
}) string {
	text := s.String()
	if text == "" && !s.Empty() {
		return "\x00"
	}
	return text
}

// selects reports whether the selector selects all pods of an update. mirrors is true if the update
// has mirror pods.
func (s *Selector) selects(mirrors bool) bool {
	return s.Source == "" && s.Namespace == "" && s.Owner.Empty() && (!s.NoMirrorPods || !mirrors) &&
		(s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// recorded returns the operations that must have been recorded for a subscriber that resumes. Owners before a restart are not known.
func (s *Selector) recorded(ops journal.Operations) journal.Operations {
	all := journal.Operations{config.OWNERS: !s.Owner.Empty()}
	for op := range ops {
		all[op] = all[op] || op != config.OWNERS && ops[op] // of the owners, all come after a restart
	}
	return all
}

// Matches reports whether the pod is selected.
func (s *Selector) Matches(p *journal.Pod) bool {
	switch {
	case s.Source != "" && s.Source != p.Source:
		return false
	case s.Namespace != "" && s.Namespace != p.Object.Namespace:
		return false
	case s.Labels != nil && !s.Labels.Matches(labels.Set(p.Object.Labels)):
		return false
	case s.Fields != nil && !s.Fields.Empty() && !s.Fields.Matches(podfields.Of(p.Object)):
		return false
	case s.NoMirrorPods && config.IsMirrorPod(p.Object), !s.Owner.Matches(p.Owners):
		return false
	}
	return true
}
