package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// maxFrame is about how many bytes of pods, as protobuf, a frame carries. A pod
// that is larger has a frame of its own.
const maxFrame = 1 << 20

// Frame is what a reader is given at once: an update, a part of a large one, or a
// bookmark. It is shared and must not be written to.
type Frame struct {
	Content

	header func() ([]byte, error)
	forms  [formCount]formSlot
}

// Content is what a frame says.
type Content struct {
	Instance string
	Revision int64
	// Time is when the update was taken; zero in the first frames and bookmarks.
	Time   time.Time
	Op     config.PodOperation
	Source string
	Pods   []*Pod

	InitialSyncComplete, Reset, Continues bool
	// Message says why there was a Reset.
	Message string
	// Bookmark is there for BOOKMARK.
	Bookmark *Bookmark
	// Event is there for PLEG.
	Event *v1alpha1.Event
}

// Form is a wire form of frames that is encoded outside of this package.
type Form int

// The forms.
const (
	// PodConfigForm is that of podconfigd's gRPC service, PodsForm that of the kubelet's
	// Pods API.
	PodConfigForm Form = iota
	PodsForm
	formCount
)

type formSlot struct {
	once  sync.Once
	value any
	err   error
}

// Encoded returns the frame in a form. encode is called for the first reader that
// needs it, and its result shared by all; it is the same function for all of a form.
func Encoded[T any](f *Frame, form Form, encode func(*Frame) (T, error)) (T, error) {
	slot := &f.forms[form]
	slot.once.Do(func() { slot.value, slot.err = encode(f) })
	value, _ := slot.value.(T) // it is of no other type
	return value, slot.err
}

// Bookmark is what a BOOKMARK says of the sources.
type Bookmark struct {
	Ready   bool
	Sources map[string]v1alpha1.SourceState
}

// split makes the frames of an update, of which all but the last have Continues.
func split(whole Content) []*Frame {
	var frames []*Frame
	pods, size := whole.Pods, 0
	start := 0
	cut := func(end int) {
		part := whole
		part.Pods = pods[start:end:end]
		part.Continues = whole.Continues || end < len(pods)
		frames = append(frames, newFrame(part))
		start, size = end, 0
	}
	for i, p := range pods {
		if i > start && size+p.size > maxFrame {
			cut(i)
		}
		size += p.size
	}
	cut(len(pods))
	return frames
}

func newFrame(c Content) *Frame {
	f := &Frame{Content: c}
	f.header = sync.OnceValues(f.encodeHeader)
	return f
}

// encodeHeader encodes everything but the pods.
func (f *Frame) encodeHeader() ([]byte, error) {
	u := v1alpha1.Update{
		Instance: f.Instance, Revision: f.Revision, Op: f.Op.String(), Source: f.Source,
		InitialSyncComplete: f.InitialSyncComplete, Reset: f.Reset, Continues: f.Continues, Message: f.Message,
		Event: f.Event,
	}
	if !f.Time.IsZero() {
		u.Time = &f.Time
	}
	if b := f.Bookmark; b != nil {
		u.Ready, u.Sources = &b.Ready, b.Sources
	}
	data, err := json.Marshal(&u)
	if err != nil {
		return nil, fmt.Errorf("encoding update %d: %w", f.Revision, err)
	}
	return data, nil
}

// WriteJSON writes the frame as one line of JSON.
func (f *Frame) WriteJSON(w io.Writer) error {
	header, err := f.header()
	if err != nil {
		return err
	}
	if f.Op == config.BOOKMARK {
		if _, err := w.Write(header); err != nil {
			return err
		}
		_, err = io.WriteString(w, "\n")
		return err
	}
	if _, err := w.Write(header[:len(header)-1]); err != nil { // without its last brace
		return err
	}
	if err := writePods(w, f.Pods, `,"pods":[`); err != nil {
		return err
	}
	_, err = io.WriteString(w, "]}\n")
	return err
}

func writePods(w io.Writer, pods []*Pod, before string) error {
	for i, p := range pods {
		if i > 0 {
			before = ","
		}
		if _, err := io.WriteString(w, before); err != nil {
			return err
		}
		data, err := p.JSON()
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if len(pods) == 0 {
		_, err := io.WriteString(w, before)
		return err
	}
	return nil
}

// WriteList writes the pods as a v1 PodList.
func WriteList(w io.Writer, revision int64, pods []*Pod) error {
	head := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, revision)
	if err := writePods(w, pods, head); err != nil {
		return err
	}
	_, err := io.WriteString(w, "]}\n")
	return err
}
