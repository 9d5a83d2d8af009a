package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// Handlers have no access to the journal. They get pods only from a view.Scope, which has the pods that
// the client may see, in the form that it may see.

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

// SeesPods reports whether the client of the request sees any pod.
func (b *Backend) SeesPods(ctx context.Context) (bool, error) {
	scope, err := b.anyScope(ctx)
	return !scope.Grant().Nothing(), err
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
