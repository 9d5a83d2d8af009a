package backend

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// The server has no journal: all that handlers get of pods comes from a view.Scope, which has
// the pods that the client may see, in the form in which it may see them.

// anyScope returns what the client of the request sees, which can be nothing. With an error, it is
// not known what the client may see, and the scope shows nothing.
func (b *Backend) anyScope(ctx context.Context) (*view.Scope, error) {
	scope, err := b.Gate.Scope(conn.SubjectFrom(ctx))
	if err != nil && b.denied.first(err.Error()) {
		klog.FromContext(ctx).Error(err, "Applying the access rules to a client failed, and it gets no pods; further failures with this error are not logged")
	}
	return scope, err
}

// statusScope returns what the client sees in the status, which is also served without pods.
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
// apierrors. If it can't be told, the error has no status: the client tries again.
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

// deny counts a refusal, logs the first of each subject, and returns its error.
func (b *Backend) deny(ctx context.Context, scope *view.Scope, what, why string) error {
	if err := scope.Err(); err != nil { // nobody knows what the rules allow
		return err
	}
	b.Denials.Inc()
	subject := scope.Subject()
	who := conn.Cut(subject.String())
	if b.denied.first(who) {
		klog.FromContext(ctx).Info("Refused a client by the access rules; further refusals of it are only counted",
			"subject", who, "gids", slices.Concat([]uint32{}, subject.GIDs), "groups", slices.Concat([]string{}, subject.Groups), "request", what, "reason", why)
	}
	return &apierrors.StatusError{ErrStatus: *respond.StatusOf(http.StatusForbidden, metav1.StatusReasonForbidden,
		fmt.Sprintf("%s may not %s: %s", who, what, why))}
}

// maxDenied is the maximum number of subjects and errors that are logged.
const maxDenied = 1024

// denied has the subjects whose refusal was logged, and the errors by which no rules apply.
type denied struct {
	mu       sync.Mutex
	subjects map[string]struct{}
}

// first reports whether to log the refusal of a subject, or an error.
func (d *denied) first(subject string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.subjects[subject]; ok || len(d.subjects) >= maxDenied {
		return false
	}
	if d.subjects == nil {
		d.subjects = make(map[string]struct{})
	}
	d.subjects[subject] = struct{}{}
	return true
}
