package view

import (
	"iter"
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
