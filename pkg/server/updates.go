package server

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// buffers are what frames are encoded into. A subscriber has one only while it has
// something to write.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is how large a buffer may be that is kept for others.
const maxBuffer = 64 << 10

// updates serves the stream until the client or the server goes away.
func (s *Server) updates(w http.ResponseWriter, r *http.Request) {
	opts, err := parseUpdates(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	release, refusal := s.subscribe(r.Context())
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
	opts.Client = peerFrom(r.Context()).client(r.UserAgent())
	cursor := view.Stream(s.journal, opts)
	defer cursor.Close()
	err = s.stream(r.Context(), w, cursor)
	klog.FromContext(r.Context()).V(3).Info("Subscriber left", "reason", err,
		"pid", opts.Client.PID, "userAgent", opts.Client.UserAgent)
}

// stream writes what the cursor has, and waits for more, until an error, which it
// returns.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, cursor *view.Cursor) error {
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil { // the first time, so that the client knows that it is on
			return err
		}
		frames, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		if err := s.write(w, frames); err != nil {
			return err
		}
	}
}

// write encodes the frames, lets go of them, and only then waits for the client.
func (s *Server) write(w http.ResponseWriter, frames []*view.Frame) (err error) {
	buffer, _ := buffers.Get().(*[]byte) // there is nothing else in it
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
	s.metrics.frames.Add(float64(n))
	return nil
}
