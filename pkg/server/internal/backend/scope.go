package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Handlers have no access to the journal. They get pods only from a view.Scope, which has the pods that
// the client may see, in the form that it may see.

// anyScope returns what the client of the request sees, which can be nothing. If it returns an error, it
// is not known what the client may see, and the scope shows nothing.
func (b *Backend) anyScope(ctx context.Context) (*view.Scope, error) {
	scope, err := b.Gate.Scope(conn.SubjectFrom(ctx))
	if err != nil && b.denied.first(err.Error()) {
		klog.FromContext(ctx).Error(err, "Applying the access rules to a client failed, and it gets no pods; further failures with this error are not logged")
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

// deny counts a refusal, logs the first of each subject, and returns its error.
func (b *Backend) deny(ctx context.Context, scope *view.Scope, what, why string) error {
	if err := scope.Err(); err != nil { // it is not known what the rules allow
		return err
	}
	b.Denials.Inc()
	subject := scope.Subject()
	who := conn.Cut(subject.String())
	if b.denied.first(who) {
		klog.FromContext(ctx).Info("Refused a client by the access rules; further refusals of it are only counted",
			"subject", who, "gids", slices.Concat([]uint32{}, subject.GIDs), "groups", slices.Concat([]string{}, subject.Groups), "request", what, "reason", why)
	}
	return &apierrors.StatusError{ErrStatus: *respond.StatusOf(http.StatusForbidden,
		fmt.Sprintf("%s may not %s: %s", who, what, why))}
}

// maxDenied is the maximum number of subjects and errors that are logged.
const maxDenied = 1024

// denied remembers what was logged: the subjects that were refused, and the errors of applying the rules.
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

// ResyncPod sends a SYNC for one pod to its subscribers. It returns an error of Options.Resync, or
// BadRequest of apierrors if no pod can have the name.
func (b *Backend) ResyncPod(ctx context.Context, namespace, name string) error {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: required", p.parameter))
		}
		if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %q: %s", p.parameter, p.value, problems[0]))
		}
	}
	if b.Resync == nil {
		return errors.New("this server sends no SYNC on request")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	sees := scope.Sees(types.NamespacedName{Namespace: namespace, Name: name})
	if err := scope.Err(); err != nil {
		return err
	}
	if !sees { // as for a pod that is not there
		return &apierrors.StatusError{ErrStatus: *respond.StatusOf(http.StatusNotFound,
			fmt.Sprintf("resyncing pod %s/%s: no such pod", namespace, name))}
	}
	return b.Resync(ctx, namespace, name)
}

// ReleaseSource merges the held set of a source. It returns an error of Options.Release, or BadRequest of
// apierrors if no source can have the name. most is the number of pods that the set may remove; nil for
// any.
func (b *Backend) ReleaseSource(ctx context.Context, name string, most *int) error {
	source, err := config.ParseSource(name)
	if err == nil && source == "" {
		err = errors.New("required")
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %v", "source", err))
	}
	if b.Release == nil {
		return errors.New("this server holds no sets")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	if scope.Grant().AtLeast(source, "").Level() != access.Full {
		return b.deny(ctx, scope, "release the set of source "+source, "the access rules do not show all of its pods to it in full")
	}
	return b.Release(ctx, source, most)
}
