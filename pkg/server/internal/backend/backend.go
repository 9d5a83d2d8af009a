// Package backend has what the requests of all protocols are answered from, as the access rules allow.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Backend has what the requests of all protocols are answered from. Status, Runtime, Lookup, History,
// Resync and Release are those of server.Options.
type Backend struct {
	Gate    *view.Gate
	Limits  *conn.Limiter
	Status  func() v1alpha1.Status
	Runtime func() v1alpha1.RuntimePods
	Lookup  *lookup.Lookup
	History func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error]
	Resync  func(ctx context.Context, namespace, name string) error
	Release func(ctx context.Context, source string, most *int) error
	// Frames counts the frames sent to subscribers, Denials the requests refused by the access rules.
	Frames, Denials prometheus.Counter

	denied denied
	// statuses makes answers with the status.
	statuses *answers
	// historyReads has an element for each page of history that is being read.
	historyReads chan struct{}
}

// New returns a backend without optional parts.
func New(gate *view.Gate, limits *conn.Limiter, status func() v1alpha1.Status, frames, denials prometheus.Counter) *Backend {
	return &Backend{
		Gate: gate, Limits: limits, Status: status, Frames: frames, Denials: denials,
		statuses: newAnswers(), historyReads: make(chan struct{}, maxHistoryReads),
	}
}

// ErrNoLookup is the answer of a server without lookups.
var ErrNoLookup = errors.New("this server answers no lookups")

// ErrStopping is the answer to a request that the end of the server interrupts.
var ErrStopping = errors.New("podconfigd is stopping")

// Admit counts a query of a client, if it waits or asks for pods, until release is called
// after the answer. Its error has a status.
func (b *Backend) Admit(ctx context.Context, query *lookup.Query) (release func(), err error) {
	if b.Lookup == nil {
		return nil, ErrNoLookup
	}
	var taken []func()
	release = func() {
		for _, giveBack := range taken {
			giveBack()
		}
	}
	for _, c := range []struct {
		counts bool
		take   func(context.Context) (func(), error)
	}{{query.Wait > 0, b.Limits.Wait}, {query.Pods, b.Limits.List}} {
		if !c.counts {
			continue
		}
		giveBack, refusal := c.take(ctx)
		if refusal != nil {
			release()
			return nil, &apierrors.StatusError{ErrStatus: *respond.TooMany(refusal)}
		}
		taken = append(taken, giveBack)
	}
	return release, nil
}

const (
	// historyPageBytes is the size after which a page ends.
	historyPageBytes = 1 << 20
	// maxHistoryReads is the maximum number of pages that are read at the same time. Each
	// holds the pods of the node. The others wait.
	maxHistoryReads = 2
)

// ErrNoHistory is the answer of a daemon without a state directory.
var ErrNoHistory = errors.New("there is no history: start podconfigd with --state-dir")

// ErrHistoryCompacted is the answer to a token whose next page is gone.
var ErrHistoryCompacted = errors.New("the changes after the previous page were deleted, because they were too old or too large: request the history from the start")

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

// HistoryPage reads a page. encode returns a record as it is sent, and its size. next is the
// token of the next page; empty on the last one. A gap at the end has no revision of its own, so
// no token could be of the place behind it: it is on the page of the record before it.
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
		if err := cmp.Or(hideHistoryError(query.Opts.Grant, err), context.Cause(ctx)); err != nil {
			return nil, "", err
		}
		if record.Gap != "" && query.Opts.Grant != nil {
			record.Gap = hiddenGap
		}
		if record.Revision > last.Revision && (len(page) >= query.Limit || size >= historyPageBytes) {
			return page, query.Token(last), nil
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
