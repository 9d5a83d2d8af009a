package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

const (
	// historyPageBytes is the size after which a page ends.
	historyPageBytes = 1 << 20
	// maxHistoryReads is the maximum number of pages that are read at the same time. Each
	// holds the pods of the node, and with the newest first, the changes of one file. The others wait.
	maxHistoryReads = 2
)

// ErrNoHistory is the answer of a daemon without a state directory.
var ErrNoHistory = errors.New("there is no history: start podconfigd with --state-dir")

// ErrHistoryCompacted is the answer to a request for what was deleted.
var ErrHistoryCompacted = errors.New("the changes after this position were deleted, because they were too old or too large: request the history from the start")

// A client that does not see everything gets hiddenGap instead of the reason of a gap, and
// errHiddenHistory instead of an error.
const hiddenGap = "changes are missing: the access rules hide the reason"

var errHiddenHistory = errors.New("reading the history failed: the access rules hide the error")

func hideHistoryError(grant *access.Grant, err error) error {
	if err == nil || grant == nil || errors.Is(err, history.ErrCompacted) {
		return err
	}
	return errHiddenHistory
}

// hideIn hides the reason of a gap from a client that does not see everything. It returns the error that
// ends the page, if there is one.
func hideIn(ctx context.Context, query *params.HistoryQuery, record *v1alpha1.HistoryRecord, err error) error {
	if err := cmp.Or(hideHistoryError(query.Opts.Grant, err), context.Cause(ctx)); err != nil {
		return err
	}
	if record.Gap != "" && query.Opts.Grant != nil {
		record.Gap = hiddenGap
	}
	return nil
}

// HistoryPage reads a page. encode encodes a record, and returns its size. next is the token of the next
// page; empty on the last one. A gap at the end of the history has no revision, so that no token can point behind it. It
// is on the page of the record beside it.
func HistoryPage[T any](ctx context.Context, b *Backend, scope *view.Scope, query *params.HistoryQuery, encode func(*v1alpha1.HistoryRecord) (T, int, error)) (page []T, next string, err error) {
	select {
	case b.historyReads <- struct{}{}:
		defer func() { <-b.historyReads }()
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	size := 0
	query.Opts.Grant = scope.Grant()
	if err := scope.Err(); err != nil {
		return nil, "", err
	}
	last := query.Opts.After
	for record, err := range b.History(query.Opts) {
		if err := hideIn(ctx, query, record, err); err != nil {
			return nil, "", err
		}
		further := record.Revision > last.Revision
		if query.Opts.Newest {
			further = record.Revision > 0 && (record.Revision < last.Revision || last.Revision == 0)
		}
		if further && last.Revision > 0 && (len(page) >= query.Limit || size >= historyPageBytes) {
			return page, query.Token(last), nil
		}
		encoded, n, err := encode(record)
		if err != nil {
			return nil, "", fmt.Errorf("encoding the change of revision %d: %w", record.Revision, err)
		}
		page, size = append(page, encoded), size+n
		if further {
			last = history.Position{Instance: record.Instance, Revision: record.Revision}
		}
	}
	return page, "", nil
}
