package view

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Objects returns the nodes or the namespaces that the subject sees at a revision, by name, and
// the revision: all nodes, and the namespaces in which it sees a pod. 0 means the newest revision.
// The error is a CompactedError, or that of Err.
func (s *Scope) Objects(kind journal.Kind, at int64) ([]*journal.Object, int64, error) {
	l, unlock, err := s.lens(Selector{})
	defer unlock()
	if err != nil {
		return nil, 0, err
	}
	// A watch sends a set's events with the last revisions that cause them, so a list within a
	// set would not fit to it.
	objects, revision, err := s.gate.journal.Objects(kind, s.gate.journal.Boundary(at))
	if err != nil || l.plain() {
		return objects, revision, err
	}
	return seenObjects(s.gate.journal, l, kind, objects, revision)
}

// Object returns the current node or namespace of a name; nil if there is none or it is hidden.
func (s *Scope) Object(kind journal.Kind, name string) *journal.Object {
	l, unlock, _ := s.lens(Selector{})
	defer unlock()
	object := s.gate.journal.Object(kind, name)
	if object == nil || l.plain() {
		return object
	}
	seen, _, err := seenObjects(s.gate.journal, l, kind, []*journal.Object{object}, 0)
	if err != nil || len(seen) == 0 {
		return nil
	}
	return seen[0]
}

// WatchObjects starts a subscription as the function Objects does.
func (s *Scope) WatchObjects(opts ObjectsOptions) *ObjectsCursor {
	opts.scope = s
	return Objects(s.gate.journal, opts)
}

func seenObjects(j *journal.Journal, l *lens, kind journal.Kind, objects []*journal.Object, at int64) ([]*journal.Object, int64, error) {
	seen := make([]*journal.Object, 0, len(objects))
	if kind != journal.Namespaces {
		for _, o := range objects {
			seen = append(seen, withoutTraces(o))
		}
		return seen, at, nil
	}
	pods, _, err := j.Named(at)
	namespaces := make(map[string]bool)
	for _, pod := range l.filter(pods) {
		namespaces[pod.Object.Namespace] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o *journal.Object) bool { return !namespaces[o.Object.GetName()] }), at, err
}

// object returns the object as the subject sees it.
func (s *Scope) object(o *journal.Object) *journal.Object {
	if s.granted() == nil {
		return o
	}
	return withoutTraces(o)
}

// withoutTraces returns a node without what tells of pods: the images and volumes on it.
func withoutTraces(o *journal.Object) *journal.Object {
	node, ok := o.Object.(*v1.Node)
	if !ok {
		return o
	}
	shown := *node
	shown.ManagedFields = nil
	shown.Status.Images, shown.Status.VolumesInUse, shown.Status.VolumesAttached = nil, nil, nil
	return &journal.Object{Object: &shown, Revision: o.Revision}
}
