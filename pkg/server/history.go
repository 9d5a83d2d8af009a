package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

const (
	// historyPageBytes is the size after which a page ends.
	historyPageBytes = 1 << 20
	// maxHistoryReads is the maximum number of pages that are read at the same time. Each
	// holds the pods of the node. The others wait.
	maxHistoryReads = 2
)

// errNoHistory is the answer of a daemon without a state directory.
var errNoHistory = errors.New("there is no history: start podconfigd with --state-dir")

// errHistoryCompacted is the answer to a token whose next page is gone.
var errHistoryCompacted = errors.New("the changes after the previous page were deleted, because they were too old or too large: request the history from the start")

// hiddenGap replaces the reason of a gap, which can be an error, and errHiddenHistory an error, for a
// client that does not see everything.
const hiddenGap = "changes are missing: the access rules hide the reason"

var errHiddenHistory = errors.New("reading the history failed: the access rules hide the error")

func hideHistoryError(grant *access.Grant, err error) error {
	if err == nil || grant == nil || errors.Is(err, history.ErrCompacted) {
		return err
	}
	return errHiddenHistory
}

// history answers with a page of the changes on disk.
func (s *Server) history(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	if s.opts.History == nil {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound, errNoHistory.Error())
		return
	}
	query, err := parseHistory(r.URL.RawQuery, time.Now())
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	page, next, err := historyPage(r.Context(), s, scope, query, func(record *v1alpha1.HistoryRecord) ([]byte, int, error) {
		data, err := json.Marshal(record)
		return data, len(data), err
	})
	switch {
	case errors.Is(err, history.ErrCompacted):
		respond.Error(w, http.StatusGone, metav1.StatusReasonExpired, fmt.Sprintf("parameter \"continue\": %v", errHistoryCompacted))
		return
	case err != nil:
		respond.Error(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
		return
	}
	respond.Within(w, s.limits.listTimeout)
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

// historyPage reads a page. encode returns a record as it is sent, and its size. next is the
// token of the next page; empty on the last one. A gap at the end has no revision of its own, so
// no token could be of the place behind it: it is on the page of the record before it.
func historyPage[T any](ctx context.Context, s *Server, scope *view.Scope, query *historyQuery, encode func(*v1alpha1.HistoryRecord) (T, int, error)) (page []T, next string, err error) {
	select {
	case s.historyReads <- struct{}{}:
		defer func() { <-s.historyReads }()
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	size := 0
	query.opts.Grant = scope.Grant()
	if err := scope.Err(); err != nil {
		return nil, "", err
	}
	last := query.opts.After
	for record, err := range s.opts.History(query.opts) {
		if err := cmp.Or(hideHistoryError(query.opts.Grant, err), context.Cause(ctx)); err != nil {
			return nil, "", err
		}
		if record.Gap != "" && query.opts.Grant != nil {
			record.Gap = hiddenGap
		}
		if record.Revision > last.Revision && (len(page) >= query.limit || size >= historyPageBytes) {
			return page, query.token(last), nil
		}
		encoded, n, err := encode(record)
		if err != nil {
			return nil, "", fmt.Errorf("encoding the change of revision %d: %w", record.Revision, err)
		}
		page, size = append(page, encoded), size+n
		if record.Revision > last.Revision {
			last = history.Position{Instance: record.Instance, Revision: record.Revision}
		}
	}
	return page, "", nil
}
