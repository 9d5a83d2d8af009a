package kubeapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// streamBuffer is how many bytes of small events go out together.
const streamBuffer = 16 << 10

// watch tells changes until the client or the server goes away, or the time is up.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, o *options) {
	release, refusal := h.opts.Subscribe(r.Context())
	if refusal != nil {
		respond.Status(w, respond.TooMany(refusal))
		return
	}
	defer release()
	opts := journal.WatchOptions{
		Selector: o.selector, ByName: true, Behind: journal.Fail, Reader: h.opts.Reader(r),
	}
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
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	cursor := h.opts.Journal.Watch(opts)
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
	s := &stream{options: o, out: bufio.NewWriterSize(w, streamBuffer), initial: opts.Since == nil}
	err := s.run(ctx, http.NewResponseController(w), cursor)
	klog.FromContext(ctx).V(3).Info("Watch ended", "reason", err, "pid", opts.Reader.PID, "userAgent", opts.Reader.UserAgent)
}

// stream writes events.
type stream struct {
	*options
	out *bufio.Writer
	// initial: the pods that come are the present ones, each of its own revision.
	initial bool
	// headed: the columns of a table have been told.
	headed bool
	buffer []byte
}

func (s *stream) run(ctx context.Context, control *http.ResponseController, cursor *journal.Cursor) error {
	for {
		if err := control.Flush(); err != nil { // the first time, so that the client knows that it is on
			return err
		}
		frames, err := cursor.Next(ctx)
		if compacted, ok := errors.AsType[*journal.CompactedError](err); ok {
			return s.end(expired(compacted))
		}
		if err != nil {
			return err
		}
		for _, f := range frames {
			if err := s.frame(f); err != nil {
				return err
			}
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
	}
}

// end tells why the watch ends.
func (s *stream) end(status *metav1.Status) error {
	object, err := s.form.status(status)
	if err != nil {
		return err
	}
	if err := s.event(watch.Error, object); err != nil {
		return err
	}
	return s.out.Flush()
}

// frame tells the events of a frame.
func (s *stream) frame(f *journal.Frame) error {
	kind := watch.Modified
	switch f.Op {
	case config.ADD:
		kind = watch.Added
	case config.REMOVE:
		kind = watch.Deleted
	case config.BOOKMARK:
		return s.bookmarkOf(f)
	}
	for _, pod := range f.Pods {
		revision := f.Revision
		if s.initial {
			revision = pod.Revision
		}
		if err := s.pod(kind, pod, revision); err != nil {
			return err
		}
	}
	return nil
}

// pod tells one event of a pod.
func (s *stream) pod(kind watch.EventType, pod *journal.Pod, revision int64) (err error) {
	switch {
	case s.form.table:
		s.buffer, err = s.form.tableOf(!s.headed, revision, pod)
		s.headed = true
	case s.form.protobuf:
		if s.buffer, err = pod.AppendProtobuf(s.buffer[:0], revision); err == nil {
			var object []byte
			if object, err = envelope("Pod", s.buffer); err == nil {
				return s.event(kind, object)
			}
		}
	default:
		s.buffer, err = pod.AppendJSON(s.buffer[:0], revision)
	}
	if err != nil {
		return err
	}
	return s.event(kind, s.buffer)
}

// bookmarkOf tells how far the watch is, and the end of the present pods.
func (s *stream) bookmarkOf(f *journal.Frame) error {
	end := s.initial && f.InitialSyncComplete
	if end {
		s.initial = false
	}
	asked := s.options.initial != nil && *s.options.initial
	if !s.bookmark || (end && !asked) {
		return nil
	}
	mark := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(f.Revision, 10)},
	}
	if end {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	var object []byte
	var err error
	switch {
	case s.form.table:
		object, err = s.form.bookmark(mark)
	case s.form.protobuf:
		var raw []byte
		if raw, err = mark.Marshal(); err == nil {
			object, err = envelope("Pod", raw)
		}
	default:
		object, err = json.Marshal(mark)
	}
	if err != nil {
		return err
	}
	return s.event(watch.Bookmark, object)
}

// event writes an event, the object of which is encoded.
func (s *stream) event(kind watch.EventType, object []byte) error {
	if !s.form.protobuf {
		_, _ = s.out.WriteString(`{"type":"` + string(kind) + `","object":`) // as below
		_, _ = s.out.Write(object)
		_, err := s.out.WriteString("}\n") // a writer that has failed goes on to
		return err
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	data, err := event.Marshal()
	if err != nil {
		return err
	}
	// apimachinery: pkg/util/framer NewLengthDelimitedFrameWriter.
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(data)))
	_, _ = s.out.Write(length[:]) // as above
	_, err = s.out.Write(data)
	return err
}
