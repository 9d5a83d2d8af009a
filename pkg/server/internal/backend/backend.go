// Package backend answers the requests of all protocols. It applies the access rules and the limits, and
// gives handlers the pods, the status, the history and lookups.
package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
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

// Requests of all protocols are admitted here, in this order:
//
//  1. Scope applies the access rules. It counts and logs a refusal. Handlers have no access to the journal. They get pods only
//     from a view.Scope, which has the pods that the client may see, in the form that it may see.
//  2. Limits gives a place: for a list, a stream or a wait. A client that sees nothing takes none.
//
// The errors of both have a status, of which respond makes an answer and rpc the code of a call. Which address a client comes
// from, and whether it is authenticated, is decided before: see packages conn and server.

// anyScope returns what the client of the request sees, which can be nothing. If it returns an error, it
// is not known what the client may see, and the scope shows nothing.
func (b *Backend) anyScope(ctx context.Context) (*view.Scope, error) {
	scope, err := b.Gate.Scope(conn.SubjectFrom(ctx))
	if err != nil && b.denied.First(err.Error()) {
		klog.FromContext(ctx).Error(err, "Applying the access rules to a client failed, and it gets no pods; further failures with this error are not logged for an hour")
	}
	return scope, err
}

// statusScope returns what the client sees in the status. A client that sees no pod gets the status, too.
func (b *Backend) statusScope(ctx context.Context) *view.Scope {
	scope, _ := b.anyScope(ctx)
	return scope
}

// Scope returns what the client of the request sees. If that is nothing, the error is Forbidden of
// apierrors. If the rules can't be applied now, the error has no status, and the client can try again.
func (b *Backend) Scope(ctx context.Context) (*view.Scope, error) {
	scope, err := b.anyScope(ctx)
	switch {
	case err != nil:
		return nil, err
	case scope.Grant().Nothing():
		return nil, b.deny(ctx, scope, "read pods", "no access rule shows any to it")
	}
	return scope, nil
}

// deny counts a refusal, logs the first of each subject in an hour, and returns its error.
func (b *Backend) deny(ctx context.Context, scope *view.Scope, what, why string) error {
	if err := scope.Err(); err != nil { // it is not known what the rules allow
		return err
	}
	b.Denials.Inc()
	subject := scope.Subject()
	who := conn.Cut(subject.String())
	if b.denied.First(who) {
		klog.FromContext(ctx).Info("Refused a client by the access rules; further ones of it are only counted for an hour",
			"subject", who, "gids", slices.Concat([]uint32{}, subject.GIDs), "groups", slices.Concat([]string{}, subject.Groups), "request", what, "reason", why)
	}
	return apistatus.New(http.StatusForbidden, fmt.Sprintf("%s may not %s: %s", who, what, why))
}

// Admit is Scope for a lookup, and then counts one that waits or requests pods against the limits. It sets the process of the client
// in a query for the client. The caller calls release after the answer. The error has a status, or is ErrNoLookup.
func (b *Backend) Admit(ctx context.Context, query *lookup.Query) (scope *view.Scope, release func(), err error) {
	if scope, err = b.Scope(ctx); err != nil {
		return nil, nil, err
	}
	if b.Lookup == nil {
		return nil, nil, ErrNoLookup
	}
	if query.Self {
		if err := ofClient(ctx, query); err != nil {
			return nil, nil, err
		}
	}
	waited, listed := func() {}, func() {}
	if query.Wait > 0 {
		if waited, err = b.Limits.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	if query.Pods {
		if listed, err = b.Limits.List(ctx); err != nil {
			waited()
			return nil, nil, err
		}
	}
	return scope, func() { listed(); waited() }, nil
}

// ofClient sets the process of the client in a query for the client.
func ofClient(ctx context.Context, query *lookup.Query) error {
	pid, connected, ok := conn.Process(ctx)
	switch {
	case !ok:
		return apistatus.New(http.StatusBadRequest, "looking up the client: its process is not known over TCP: ask on the unix socket")
	case pid == 0:
		return apistatus.New(http.StatusNotImplemented, "looking up the client: it is outside of podconfigd's PID namespace: run podconfigd in that of the host")
	}
	query.Client, query.Connected = pid, connected
	return nil
}

// ResyncPod sends a SYNC for one pod to its subscribers. It returns an error of Options.Resync.
func (b *Backend) ResyncPod(ctx context.Context, pod types.NamespacedName) error {
	if b.Resync == nil {
		return errors.New("this server sends no SYNC on request")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	sees := scope.Sees(pod)
	if err := scope.Err(); err != nil {
		return err
	}
	if !sees { // as for a pod that is not there
		return apistatus.New(http.StatusNotFound, fmt.Sprintf("resyncing pod %v: no such pod", pod))
	}
	return b.Resync(ctx, pod.Namespace, pod.Name)
}

// ReleaseSource merges the held set of a source. It returns an error of Options.Release.
func (b *Backend) ReleaseSource(ctx context.Context, query *params.ReleaseQuery) error {
	if b.Release == nil {
		return errors.New("this server holds no sets")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	if scope.Grant().AtLeast(query.Source, "").Level() != access.Full {
		return b.deny(ctx, scope, "release the set of source "+query.Source, "the access rules do not show all of its pods to it in full")
	}
	return b.Release(ctx, query.Source, query.Most)
}
