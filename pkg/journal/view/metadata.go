package view

import (
	"maps"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// metadata are the labels and annotations that a subscriber gets beside its pods: those of their namespaces, and of the
// node. They are the newest that the journal has, also in front of an older update: the subscriber gets each version
// at least once, and the newest one last. No line of them has a revision, so they come again after a resume.
type metadata struct {
	cursor *Cursor
	// namespaces and node are what the subscriber requests.
	namespaces, node bool
	// sent are the namespaces that the subscriber has, and sentNode is its node; nil for none.
	sent     map[string]*journal.Object
	sentNode *journal.Object
	// resumed are the frames of a subscriber that resumes, before the first set.
	resumed []*Frame
}

// start returns the first frames of a subscriber. It has the pods already.
func (m *metadata) start(pods ...*journal.Pod) []*Frame {
	m.sent, m.sentNode = make(map[string]*journal.Object), nil
	return m.frames(namespacesOf(pods), m.node)
}

// before returns what the pods of a frame need and the subscriber does not have.
func (m *metadata) before(f *Frame) []*Frame {
	if len(f.Pods) == 0 || !m.namespaces {
		return nil
	}
	names := namespacesOf(f.Pods)
	maps.DeleteFunc(names, func(name string, _ bool) bool { return m.sent[name] != nil })
	return m.frames(names, false)
}

// after returns what changed with a set.
func (m *metadata) after(set *journal.Set) []*Frame {
	names, node := make(map[string]bool), false
	for i := range set.Objects {
		if c := &set.Objects[i]; c.Kind == journal.Namespaces {
			names[c.Name()] = true
		} else {
			node = m.node
		}
	}
	if m.cursor.scope.granted() != nil { // it sees the namespaces in which it sees a pod
		for i := range set.Names {
			for _, p := range []*journal.Pod{set.Names[i].Before, set.Names[i].After} {
				if p != nil {
					names[p.Object.Namespace] = true
				}
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return m.sent[name] == nil })
	return m.frames(names, node)
}

func namespacesOf(pods []*journal.Pod) map[string]bool {
	names := make(map[string]bool)
	for _, p := range pods {
		names[p.Object.Namespace] = true
	}
	return names
}

// frames returns what the subscriber does not have of the namespaces and the node, in frames of about PieceSize.
func (m *metadata) frames(names map[string]bool, node bool) (frames []*Frame) {
	var last *Frame
	grow := func(o *journal.Object) *Frame {
		size := 0
		if o != nil {
			size = o.Size()
		}
		if last == nil || last.size+size > PieceSize {
			last = &Frame{Instance: m.cursor.journal.Instance(), Op: config.METADATA}
			frames = append(frames, last)
		}
		last.size += size
		return last
	}
	if node {
		if all, _, err := m.cursor.journal.Objects(journal.Nodes, 0); err == nil && len(all) > 0 && !sameMetadata(m.sentNode, all[0]) {
			m.sentNode = all[0]
			grow(all[0]).Node = metadataOf(all[0])
		}
	}
	if !m.namespaces {
		return frames
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		had, has := m.sent[name], m.namespace(name)
		if had == nil && has == nil || had != nil && has != nil && sameMetadata(had, has) {
			continue
		}
		if m.sent[name] = has; has == nil {
			delete(m.sent, name)
		}
		f := grow(has)
		if f.Namespaces == nil {
			f.Namespaces = make(map[string]*v1alpha1.Metadata)
		}
		f.Namespaces[name] = metadataOf(has)
	}
	return frames
}

// namespace returns the current namespace of a name, if the subscriber sees it; nil otherwise.
func (m *metadata) namespace(name string) *journal.Object {
	return seenObject(m.cursor.journal, &lens{grant: m.cursor.scope.granted()}, journal.Namespaces, name)
}

func sameMetadata(a, b *journal.Object) bool {
	return a == b || a != nil && b != nil && maps.Equal(a.Object.GetLabels(), b.Object.GetLabels()) &&
		maps.Equal(a.Object.GetAnnotations(), b.Object.GetAnnotations())
}

// metadataOf returns the labels and annotations of an object; nil for one that is gone.
func metadataOf(o *journal.Object) *v1alpha1.Metadata {
	if o == nil {
		return &v1alpha1.Metadata{Removed: true}
	}
	return &v1alpha1.Metadata{Labels: o.Object.GetLabels(), Annotations: o.Object.GetAnnotations()}
}

// AddMetadata adds the labels and annotations of the namespaces of an answer's pods to it, and those of the node.
func (s *Scope) AddMetadata(answer *v1alpha1.Lookup, namespaces, node bool) {
	if namespaces {
		answer.Namespaces = make(map[string]*v1alpha1.Metadata)
		for i := range answer.Pods {
			name := answer.Pods[i].Namespace
			if o := s.Object(journal.Namespaces, name); o != nil {
				answer.Namespaces[name] = metadataOf(o)
			}
		}
	}
	if !node {
		return
	}
	if all, _, err := s.Objects(journal.Nodes, 0); err == nil && len(all) > 0 {
		answer.Node = metadataOf(all[0])
	}
}
