package kubeapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// buffers are the buffers into which events are encoded. A watch has one only while it
// writes.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// endWait is the time in which a client must read what was sent before the end of its watch.
const endWait = time.Second

// maxBuffer is the maximum size of a buffer that is reused.
const maxBuffer = 64 << 10

// watch sends events until the client disconnects, the server stops, or the timeout of the
// request expires.
func (h *handler) watch(w http.ResponseWriter, r *http.Request, o *options) {
	release, refusal := h.opts.Subscribe(r.Context())
	if refusal != nil {
		respond.Status(w, respond.TooMany(refusal))
		return
	}
	defer release()
	opts := view.NamesOptions{Options: view.Options{Selector: o.selector}}
	opts.Client, opts.Drained = h.opts.Client(r)
	switch {
	case o.initial != nil && !*o.initial && o.revision == 0:
		opts.Since = new(h.opts.Journal.Revision())
	case o.initial == nil && o.revision != 0, o.initial != nil && !*o.initial:
		opts.Since = &o.revision
	}
	if o.initial != nil && *o.initial {
		if head := h.opts.Journal.Revision(); o.revision > head {
			respond.Status(w, tooLarge(o.revision, head))
			return
		}
	}
	ctx := r.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		end := time.Now().Add(o.timeout)
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(end.Add(endWait)) // the writer of a test may have no deadlines
	}
	cursor := view.Names(h.opts.Journal, opts)
	defer cursor.Close()
	contentType := o.form.contentType
	if o.form.protobuf {
		contentType += ";stream=watch"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{options: o, initial: opts.Since == nil}
	err := s.run(ctx, w, cursor)
	klog.FromContext(ctx).V(3).Info("Watch ended", "reason", err, "pid", opts.Client.PID, "userAgent", opts.Client.UserAgent)
}

// stream writes the events of a watch.
type stream struct {
	*options
	out *bytes.Buffer
	// initial is true until the end of the current pods.
	initial bool
	// headed is true after the column definitions of a table were sent.
	headed bool
	buffer []byte
}

func (s *stream) run(ctx context.Context, w http.ResponseWriter, cursor *view.Cursor) error {
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil { // the first flush sends the header
			return err
		}
		frames, err := cursor.Next(ctx)
		if compacted, ok := errors.AsType[*journal.CompactedError](err); ok {
			_ = control.SetWriteDeadline(time.Now().Add(endWait)) // as in watch
			return s.write(w, func() error { return s.end(expired(compacted)) })
		}
		if err != nil {
			return err
		}
		err = s.write(w, func() error {
			for i, f := range frames {
				frames[i] = nil
				if err := s.frame(f); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// write calls encode, which encodes into s.out, and writes the result. A client that does not
// read holds only the encoded bytes.
func (s *stream) write(w http.ResponseWriter, encode func() error) error {
	s.out, _ = buffers.Get().(*bytes.Buffer) // the pool has nothing else
	s.out.Reset()
	defer func() {
		if s.out.Cap() <= maxBuffer {
			buffers.Put(s.out)
		}
		s.out, s.buffer = nil, nil
	}()
	if err := encode(); err != nil {
		return err
	}
	s.buffer = nil
	_, err := w.Write(s.out.Bytes())
	return err
}

// end encodes an ERROR event with the reason why the watch ends.
func (s *stream) end(status *metav1.Status) error {
	object, err := s.form.status(status)
	if err != nil {
		return err
	}
	s.event(watch.Error, object)
	return nil
}

// frame encodes the events of a frame.
func (s *stream) frame(f *view.Frame) error {
	kind := watch.Modified
	switch f.Op {
	case config.ADD:
		kind = watch.Added
	case config.REMOVE:
		kind = watch.Deleted
	case config.BOOKMARK:
		return s.bookmarkOf(f)
	}
	for i, pod := range f.Pods {
		if err := s.pod(kind, pod, f.Revisions[i]); err != nil {
			return err
		}
	}
	return nil
}

// pod encodes one event.
func (s *stream) pod(kind watch.EventType, pod *journal.Pod, revision int64) (err error) {
	if s.form.table {
		s.buffer, err = s.form.tableOf(!s.headed, revision, pod)
		s.headed = true
	} else {
		s.buffer, err = s.form.object(s.buffer, pod, revision)
	}
	if err == nil {
		s.event(kind, s.buffer)
	}
	return err
}

// bookmarkOf encodes a bookmark, if the client requested bookmarks or the current pods end.
func (s *stream) bookmarkOf(f *view.Frame) error {
	end := s.initial && f.InitialSyncComplete
	if end {
		s.initial = false
	}
	requested := s.options.initial != nil && *s.options.initial
	if !s.bookmark || (end && !requested) {
		return nil
	}
	meta := &metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(f.Revision, 10)}
	if end {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	bookmark := s.form.bookmark
	if s.form.table {
		bookmark = s.form.bookmarkTable
	}
	object, err := bookmark(meta)
	if err != nil {
		return err
	}
	s.event(watch.Bookmark, object)
	return nil
}

// event encodes an event with an encoded object.
func (s *stream) event(kind watch.EventType, object []byte) {
	if !s.form.protobuf {
		s.out.WriteString(`{"type":"` + string(kind) + `","object":`)
		s.out.Write(object)
		s.out.WriteString("}\n")
		return
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	// apimachinery: pkg/util/framer NewLengthDelimitedFrameWriter.
	var length [4]byte
	data, _ := event.Marshal() // never fails for bytes and a string
	binary.BigEndian.PutUint32(length[:], uint32(len(data)))
	s.out.Write(length[:])
	s.out.Write(data)
}
