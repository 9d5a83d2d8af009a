package server

import (
	"bufio"
	"context"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// streamBuffer is how many bytes of small frames go out together.
const streamBuffer = 16 << 10

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
	opts.Reader = peerFrom(r.Context()).reader(r.UserAgent())
	cursor := s.journal.Watch(opts)
	defer cursor.Close()
	err = s.stream(r.Context(), w, cursor)
	klog.FromContext(r.Context()).V(3).Info("Subscriber left", "reason", err,
		"pid", opts.Reader.PID, "userAgent", opts.Reader.UserAgent)
}

// stream writes what the cursor has, and waits for more, until an error, which it
// returns.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, cursor *journal.Cursor) error {
	control := http.NewResponseController(w)
	out := bufio.NewWriterSize(w, streamBuffer)
	if err := control.Flush(); err != nil { // so that the client knows that it is on
		return err
	}
	for {
		frames, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		for _, f := range frames {
			if err := f.WriteJSON(out); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		s.metrics.frames.Add(float64(len(frames)))
	}
}
