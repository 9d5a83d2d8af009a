package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// updates serves the stream until the client disconnects or the server stops.
func (a *API) updates(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	opts, err := params.ParseUpdates(r.URL.RawQuery)
	if err == nil {
		err = a.CheckOwners(opts.Owners, opts.Selector.Owner)
	}
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	a.subscribe(w, r, func(client journal.Client) error {
		opts.Client = client
		cursor := scope.Stream(opts)
		defer cursor.Close()
		return a.stream(w, r, cursor)
	})
}

// subscribe begins an answer that is a stream, if the limits allow one more. Then stream writes it until an error.
func (a *API) subscribe(w http.ResponseWriter, r *http.Request, stream func(journal.Client) error) {
	release, refusal := a.Limits.Subscribe(r)
	if refusal != nil {
		respond.Failure(w, refusal)
		return
	}
	defer release()
	w.Header().Set("Content-Type", v1alpha1.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	client := conn.HTTPClient(r)
	err := stream(client)
	klog.FromContext(r.Context()).V(3).Info("Subscriber left", "reason", err,
		"path", r.URL.Path, "pid", client.PID, "userAgent", client.UserAgent)
}

// stream writes the frames of the cursor until an error, and returns the error.
func (a *API) stream(w http.ResponseWriter, r *http.Request, cursor *view.Cursor) error {
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil { // the first flush sends the header
			return err
		}
		frames, err := cursor.Next(r.Context())
		if err != nil {
			return err
		}
		n := len(frames)
		if err := respond.Write(w, func(to []byte) ([]byte, error) { return appendLines(to, frames) }); err != nil {
			return err
		}
		a.Frames.Add(float64(n))
	}
}

// appendLines encodes the frames, and releases them.
func appendLines(to []byte, frames []*view.Frame) (_ []byte, err error) {
	defer clear(frames)
	for _, f := range frames {
		if to, err = wire.AppendLine(to, f); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// history answers with a page of the changes on disk.
func (a *API) history(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	if a.History == nil {
		respond.Error(w, http.StatusNotFound, backend.ErrNoHistory.Error())
		return
	}
	query, err := params.ParseHistory(r.URL.RawQuery, time.Now())
	if err == nil {
		err = a.CheckOwners(false, query.Opts.Owner)
	}
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	page, next, err := backend.HistoryPage(r.Context(), a.Backend, scope, query, func(record *v1alpha1.HistoryRecord) ([]byte, int, error) {
		data, err := json.Marshal(record)
		return data, len(data), err
	})
	switch {
	case errors.Is(err, history.ErrCompacted):
		respond.Error(w, http.StatusGone, backend.ErrHistoryCompacted.Error())
		return
	case err != nil:
		respond.Error(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	respond.Within(w, a.Limits.ListTimeout)
	w.Header().Set("Content-Type", "application/json")
	if err := writeHistory(w, page, next); err != nil {
		klog.FromContext(r.Context()).V(3).Info("Writing the history failed", "err", err)
	}
}

// writeHistory writes a page as the object v1alpha1.History.
func writeHistory(w io.Writer, page [][]byte, next string) error {
	between := `{"records":[`
	for _, record := range page {
		if _, err := io.WriteString(w, between); err != nil {
			return err
		}
		if _, err := w.Write(record); err != nil {
			return err
		}
		between = ","
	}
	if len(page) > 0 {
		between = ""
	}
	end := "]"
	if next != "" {
		end = fmt.Sprintf(`],"continue":%q`, next) // it is base64
	}
	_, err := io.WriteString(w, between+end+"}\n")
	return err
}
