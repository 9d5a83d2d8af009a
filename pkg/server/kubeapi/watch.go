package kubeapi

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// endWait is the time in which a client must read what was sent before the end of its watch.
const endWait = 10 * time.Second

// watch sends events until the client disconnects, the server stops, or the timeout of the
// request expires.
func (a *API) watch(w http.ResponseWriter, r *http.Request, o *options) {
	release, refusal := a.Limits.Subscribe(r)
	if refusal != nil {
		respond.Failure(w, refusal)
		return
	}
	defer release()
	if o.initial != nil && *o.initial {
		if head := a.Gate.Revision(); o.revision > head {
			respond.Status(w, tooLarge(o.revision, head))
			return
		}
	}
	ctx := r.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
		respond.Within(w, min(o.timeout, math.MaxInt64-endWait)+endWait)
	}
	cursor := o.resource.watch(a, r, o)
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
	s := &stream{options: o, initial: a.since(o) == nil}
	err := s.run(ctx, w, cursor)
	client := conn.HTTPClient(r)
	klog.FromContext(ctx).V(3).Info("Watch ended", "resource", o.resource.Name, "reason", err, "pid", client.PID, "userAgent", client.UserAgent)
}

// since returns the revision at which a watch starts; nil to start with the current objects.
func (a *API) since(o *options) *int64 {
	switch {
	case o.initial != nil && !*o.initial && o.revision == 0:
		return new(a.Gate.Revision())
	case o.initial == nil && o.revision != 0, o.initial != nil && !*o.initial:
		return &o.revision
	}
	return nil
}

// stream writes the events of a watch.
type stream struct {
	*options
	// out has the encoded events, during write.
	out []byte
	// initial is true until the end of the current objects.
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
			respond.Within(w, endWait)
			return s.write(w, func() error { return s.encodeError(expired(compacted)) })
		}
		if err != nil {
			return err
		}
		if err := s.write(w, func() error { return s.frames(frames) }); err != nil {
			return err
		}
	}
}

// write calls encode, which encodes into s.out, and writes the result.
func (s *stream) write(w io.Writer, encode func() error) error {
	return respond.Write(w, func(to []byte) ([]byte, error) {
		s.out = to
		err := encode()
		to, s.out, s.buffer = s.out, nil, nil
		return to, err
	})
}

// encodeError encodes an ERROR event with the reason why the watch ends.
func (s *stream) encodeError(status *metav1.Status) error {
	object, err := s.form.status(status)
	if err != nil {
		return err
	}
	s.event(watch.Error, object)
	return nil
}

// object encodes one event.
func (s *stream) object(kind watch.EventType, i item, revision int64) (err error) {
	if s.form.table {
		s.buffer, err = s.form.tableOf(!s.headed, revision, i)
		s.headed = true
	} else {
		s.buffer, err = s.form.object(s.buffer, i, revision)
	}
	if err == nil {
		s.event(kind, s.buffer)
	}
	return err
}

// mark encodes a bookmark, if the client requested bookmarks or the current objects end
// there.
func (s *stream) mark(revision int64, synced bool) error {
	end := s.initial && synced
	if end {
		s.initial = false
	}
	requested := s.options.initial != nil && *s.options.initial
	if !s.bookmark || (end && !requested) {
		return nil
	}
	meta := &metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(revision, 10)}
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
		s.out = append(s.out, `{"type":"`+string(kind)+`","object":`...)
		s.out = append(s.out, object...)
		s.out = append(s.out, "}\n"...)
		return
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	// apimachinery: pkg/util/framer NewLengthDelimitedFrameWriter.
	data, _ := event.Marshal() // never fails for bytes and a string
	s.out = binary.BigEndian.AppendUint32(s.out, uint32(len(data)))
	s.out = append(s.out, data...)
}

// viewOptions returns the options of the view of a watch.
func (o *options) viewOptions(r *http.Request) view.Options {
	return view.Options{Selector: o.selector, Client: conn.HTTPClient(r)}
}

func watchPods(a *API, r *http.Request, o *options) *view.Cursor {
	return o.scope.Names(view.NamesOptions{Options: o.viewOptions(r), Since: a.since(o)})
}

// watchObjects watches nodes or namespaces.
func watchObjects(kind journal.Kind) func(*API, *http.Request, *options) *view.Cursor {
	return func(a *API, r *http.Request, o *options) *view.Cursor {
		return o.scope.WatchObjects(view.ObjectsOptions{Options: o.viewOptions(r), Kind: kind, Match: o.selects, Since: a.since(o)})
	}
}

// frames encodes the events of frames, and releases the frames.
func (s *stream) frames(frames []*view.Frame) error {
	for i, f := range frames {
		frames[i] = nil
		if err := s.frame(f); err != nil {
			return err
		}
	}
	return nil
}

// frame encodes the events of a frame.
func (s *stream) frame(f *view.Frame) error {
	if f.Op == config.BOOKMARK {
		return s.mark(f.Revision, f.InitialSyncComplete)
	}
	for i, pod := range f.Pods {
		if err := s.object(eventType(f.Op), podItem{pod}, f.Revisions[i]); err != nil {
			return err
		}
	}
	for _, e := range f.Objects {
		if err := s.object(eventType(e.Op), objectItem{e.Object}, e.Revision); err != nil {
			return err
		}
	}
	return nil
}

// eventType returns the type of an event.
func eventType(op config.PodOperation) watch.EventType {
	switch op {
	case config.ADD:
		return watch.Added
	case config.REMOVE:
		return watch.Deleted
	}
	return watch.Modified
}
