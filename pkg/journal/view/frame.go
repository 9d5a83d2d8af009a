package view

import (
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// PieceSize is about how many bytes of pods, as protobuf, a frame carries, and about how
// many Next returns at a time. A pod that is larger has a frame of its own. As JSON it
// is about twice that.
const PieceSize = 6 << 10

// Frame is what a subscriber is given at once: an update, a piece of one, or a bookmark.
// It is shared and must not be written to.
type Frame struct {
	// Instance is the journal's.
	Instance string
	// Revision is the one to resume from; 0 where that can't be.
	Revision int64
	// Time is when the update was taken; zero in the first frames and bookmarks.
	Time   time.Time
	Op     config.PodOperation
	Source string
	Pods   []*journal.Pod
	// Revisions are those of the pods, in the view Names: each can be resumed from.
	Revisions []int64

	InitialSyncComplete, Reset, Continues bool
	// Message says why there was a Reset.
	Message string
	// Bookmark is there for BOOKMARK.
	Bookmark *journal.Bookmark
	// Event is there for PLEG.
	Event *v1alpha1.Event
	// Memo keeps the frame's encodings.
	journal.Memo

	size int
}

// batch is the pods of an update that have one operation in common.
type batch struct {
	op   config.PodOperation
	pods []*journal.Pod
	// always: that there are none is worth telling.
	always bool
}

// pieces returns the frames of batches, which together are one update: all but the last
// continue, and the last alone has the revision.
func pieces(whole *Frame, batches ...batch) []*Frame {
	var frames []*Frame
	for _, b := range batches {
		start, size := 0, 0
		for i, p := range b.pods {
			if i > start && size+p.Size() > PieceSize {
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

func frameOf(instance string, u *journal.Update) *Frame {
	return &Frame{Instance: instance, Revision: u.Revision, Time: u.Time, Source: u.Source, Event: u.Event}
}

func bookmark(instance string, revision int64, b *journal.Bookmark) *Frame {
	return &Frame{Instance: instance, Revision: revision, Op: config.BOOKMARK, Bookmark: b}
}
