package view

import (
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// PieceSize is the approximate size of the pods in a frame, and of the frames that Next
// returns, in bytes of protobuf. A larger pod has its own frame. As JSON it is about
// twice that.
const PieceSize = 6 << 10

// BatchSize is how many bytes of pods [Cursor.Next] returns at a time.
const BatchSize = 32 << 10

// Frame is an update, a piece of one, or a bookmark. It is shared and read-only.
type Frame struct {
	// Instance is the journal's.
	Instance string
	// Revision is the revision to resume from; 0 if the stream can't be resumed after this frame.
	Revision int64
	// Time is when the update was recorded; zero in the first frames and bookmarks.
	Time   time.Time
	Op     config.PodOperation
	Source string
	Pods   []*journal.Pod
	// Revisions are the revisions of the pods, in the view Names. A client can resume from each.
	Revisions []int64

	// Objects are the changes of nodes or namespaces, in the view Objects. Op is not set then.
	Objects []ObjectEvent

	InitialSyncComplete, Reset, Continues bool
	// Restored is whether some of the pods are from before a restart, because
	// their source has not been seen yet.
	Restored bool
	// Message is the reason for a Reset.
	Message string
	// Bookmark is set in a BOOKMARK.
	Bookmark *journal.Bookmark
	// Event is set in a PLEG.
	Event *v1alpha1.Event
	// Owners is whether the subscriber requests the owners of the pods.
	Owners bool
	// Namespaces and Node are set in a METADATA.
	Namespaces map[string]*v1alpha1.Metadata
	Node       *v1alpha1.Metadata
	// Memo caches the encodings of the frame.
	journal.Memo

	size int
}

// batch is the pods of an update that have the same operation.
type batch struct {
	op   config.PodOperation
	pods []*journal.Pod
	// always is whether to send the batch even without pods.
	always bool
}

// fits reports whether a piece can have the pod too. It has this number of pods already, and they have
// this size together. A piece always has one pod.
func fits(pods, size int, p *journal.Pod) bool { return pods == 0 || size+p.Size() <= PieceSize }

// fits reports whether a pod can be added.
func (f *Frame) fits(p *journal.Pod) bool { return fits(len(f.Pods), f.size, p) }

func (f *Frame) addPod(p *journal.Pod) {
	f.Pods = append(f.Pods, p)
	f.size += p.Size()
}

// OwnersOfPods returns the owners of the frame's pods that have any, by the UID of the pod.
func (f *Frame) OwnersOfPods() iter.Seq2[types.UID, []v1alpha1.Owner] {
	return func(yield func(types.UID, []v1alpha1.Owner) bool) {
		if !f.Owners {
			return
		}
		for _, p := range f.Pods {
			if len(p.Owners) > 0 && !yield(p.Object.UID, p.Owners) {
				return
			}
		}
	}
}

// pieces returns the frames of batches that are one update. All except the last continue,
// and only the last has the revision.
func pieces(whole *Frame, batches ...batch) []*Frame {
	var frames []*Frame
	for _, b := range batches {
		start, size := 0, 0
		for i, p := range b.pods {
			if !fits(i-start, size, p) {
				frames = append(frames, piece(whole, b.op, b.pods[start:i:i], size))
				start, size = i, 0
			}
			size += p.Size()
		}
		if len(b.pods) > 0 || b.always {
			frames = append(frames, piece(whole, b.op, b.pods[start:], size))
		}
	}
	if n := len(frames); n > 0 {
		frames[n-1].Continues = whole.Continues
		frames[n-1].Revision = whole.Revision
	}
	return frames
}

// piece returns a frame that continues.
func piece(whole *Frame, op config.PodOperation, pods []*journal.Pod, size int) *Frame {
	return &Frame{
		Instance: whole.Instance, Time: whole.Time, Op: op, Source: whole.Source, Pods: pods,
		Event: whole.Event, Continues: true, size: size,
	}
}

func frameOf(u *journal.Update) *Frame {
	return &Frame{Instance: u.Instance, Revision: u.Revision, Time: u.Time, Source: u.Source, Event: u.Event}
}

func bookmark(instance string, revision int64, b *journal.Bookmark) *Frame {
	return &Frame{Instance: instance, Revision: revision, Op: config.BOOKMARK, Bookmark: b}
}

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
	if node && !m.cursor.scope.granted().Nothing() {
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
