package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// entry is one update in the ring.
type entry struct {
	revision int64
	time     time.Time
	op       config.PodOperation
	source   string
	pods     []*Pod
	// before has, for each of pods, the version that was known until then, or nil.
	before []*Pod
	// named is what the update does to what names stand for.
	named []nameChange
	// mirrors: there is a mirror pod among pods or before.
	mirrors bool
	// more is true when the next entry came out of the same source set.
	more bool
	// readied: with this entry the last source was seen.
	readied bool
	size    int64
	// event is that of a PLEG.
	event *v1alpha1.Event

	// frames are those of a reader that takes the update as it is, namedFrames those of
	// one that follows names.
	frames, namedFrames func() []*Frame
}

// seal makes the entry ready to be read.
func (e *entry) seal(instance string) {
	for i, p := range e.pods {
		if p != e.before[i] || e.op == config.REMOVE { // else the state has it too
			e.size += int64(p.size) * memoryFactor
		}
	}
	e.frames = sync.OnceValue(func() []*Frame {
		return split(Content{
			Instance: instance, Revision: e.revision, Time: e.time,
			Op: e.op, Source: e.source, Pods: e.pods, Event: e.event,
		})
	})
	e.namedFrames = sync.OnceValue(func() []*Frame { return e.renderNamed(instance, &Selector{}) })
}

// redo brings a state up to the entry.
func (e *entry) redo(s state) {
	if !e.op.IsConfig() {
		return
	}
	for _, p := range e.pods {
		if e.op == config.REMOVE {
			delete(s, p.key())
		} else {
			s[p.key()] = p
		}
	}
}

// undo takes the entry back from a state.
func (e *entry) undo(s state) {
	if !e.op.IsConfig() {
		return
	}
	for i, p := range slices.Backward(e.pods) {
		if before := e.before[i]; before != nil {
			s[before.key()] = before
		} else {
			delete(s, p.key())
		}
	}
}
