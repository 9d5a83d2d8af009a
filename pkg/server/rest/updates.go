package rest

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// buffers are the buffers into which frames are encoded. A subscriber has one only while it
// writes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the maximum size of a buffer that is reused.
const maxBuffer = 64 << 10

// updates serves the stream until the client disconnects or the server stops.
func (a *API) updates(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	opts, err := params.ParseUpdates(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	release, refusal := a.Limits.Subscribe(r)
	if refusal != nil {
		respond.Status(w, respond.TooMany(refusal))
		return
	}
	defer release()
	w.Header().Set("Content-Type", v1alpha1.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	opts.Client, opts.Drained = conn.HTTPClient(r)
	cursor := scope.Stream(opts)
	defer cursor.Close()
	err = a.stream(r.Context(), w, cursor)
	klog.FromContext(r.Context()).V(3).Info("Subscriber left", "reason", err,
		"pid", opts.Client.PID, "userAgent", opts.Client.UserAgent)
}

// stream writes the frames of the cursor until an error, and returns the error.
func (a *API) stream(ctx context.Context, w http.ResponseWriter, cursor *view.Cursor) error {
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil { // the first flush sends the header
			return err
		}
		frames, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		if err := a.write(w, frames); err != nil {
			return err
		}
	}
}

// write encodes the frames, releases them, and then writes. So a client that does not read
// holds only the encoded bytes.
func (a *API) write(w http.ResponseWriter, frames []*view.Frame) (err error) {
	buffer, _ := buffers.Get().(*[]byte) // the pool has nothing else
	line := (*buffer)[:0]
	defer func() {
		if cap(line) <= maxBuffer {
			*buffer = line
			buffers.Put(buffer)
		}
	}()
	for _, f := range frames {
		if line, err = wire.AppendLine(line, f); err != nil {
			return err
		}
	}
	n := len(frames)
	clear(frames)
	if _, err := w.Write(line); err != nil {
		return err
	}
	a.Frames.Add(float64(n))
	return nil
}
