// Package backend answers the requests of all protocols. It applies the access rules and the limits, and
// gives handlers the pods, the status, the history and lookups.
package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// Backend is what the handlers of all protocols share. Status, Runtime, Lookup, History, Resync and
// Release are described in server.Options.
type Backend struct {
	Gate    *view.Gate
	Limits  *conn.Limiter
	Status  func() v1alpha1.Status
	Runtime func() v1alpha1.RuntimePods
	Lookup  *lookup.Lookup
	// Containers is nil without a container runtime.
	Containers *containers.Stream
	Owners     bool
	History    func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error]
	Resync     func(ctx context.Context, namespace, name string) error
	Release    func(ctx context.Context, source string, most *int) error
	// Frames counts the frames sent to subscribers, Denials the requests refused by the access rules.
	Frames, Denials prometheus.Counter

	denied *Lines
	// statuses makes answers with the status.
	statuses *answers
	// historyReads has an element for each page of history that is being read.
	historyReads chan struct{}
}

// New returns a backend without optional parts.
func New(gate *view.Gate, limits *conn.Limiter, status func() v1alpha1.Status, frames, denials prometheus.Counter) *Backend {
	return &Backend{
		Gate: gate, Limits: limits, Status: status, Frames: frames, Denials: denials,
		denied: NewLines(), statuses: newAnswers(), historyReads: make(chan struct{}, maxHistoryReads),
	}
}

// CheckOwners returns an error if a client requests the owners of pods, or selects by them, and nobody knows them.
func (b *Backend) CheckOwners(requested bool, selector podfields.OwnerSelector) error {
	name := "owner"
	switch {
	case b.Owners || !requested && selector.Empty():
		return nil
	case requested:
		name = "owners"
	}
	return fmt.Errorf("parameter %q: podconfigd does not know the owners of pods: start it with --owners", name)
}

// ErrNoLookup is the answer of a server without lookups.
var ErrNoLookup = errors.New("this server answers no lookups")

// ErrStopping is the answer to a request that the end of the server interrupts.
var ErrStopping = errors.New("podconfigd is stopping")

// Find answers a query that is admitted. Its errors are those of lookup.Lookup.Find.
func (b *Backend) Find(ctx context.Context, scope *view.Scope, query *lookup.Query) (*v1alpha1.Lookup, error) {
	answer, err := b.Lookup.Find(ctx, scope, query)
	if err == nil && query.Self && conn.ProcessEnded(ctx) { // the answer may be of another process with its PID
		return nil, apistatus.New(http.StatusNotFound, fmt.Sprintf("looking up the client, process %d: it has ended", query.Client))
	}
	if err == nil {
		scope.AddMetadata(answer, query.NamespaceLabels, query.NodeLabels)
	}
	return answer, err
}

// Limits of Lines.
const (
	linesFor   = time.Hour
	maxKeys    = 1024
	lineBurst  = 20
	linePeriod = 6 * time.Second
)

// Lines limits what is logged of refusals: each key is logged once an hour, and all together have a rate.
type Lines struct {
	logged  *cache.LRUExpireCache
	limiter *rate.Limiter
}

// NewLines returns lines of which none is logged.
func NewLines() *Lines {
	return &Lines{cache.NewLRUExpireCache(maxKeys), rate.NewLimiter(rate.Every(linePeriod), lineBurst)}
}

// First reports whether to log a line with the key.
func (l *Lines) First(key string) bool {
	if _, ok := l.logged.Get(key); ok || !l.limiter.Allow() {
		return false
	}
	l.logged.Add(key, nil, linesFor)
	return true
}
