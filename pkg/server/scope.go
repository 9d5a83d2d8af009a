package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// The server has no journal: all that handlers get of pods comes from a view.Scope, which has
// the pods that the client may see, in the form in which it may see them.

// SetPolicy replaces the access rules. A stream whose client sees something else by them gets a
// reset, a watch of the Kubernetes API ends with 410, and the client lists again. It returns the
// last revision that was served by the rules before.
func (s *Server) SetPolicy(policy *access.Policy) (before int64) { return s.gate.SetPolicy(policy) }

// anyScope returns what the client of the request sees, which can be nothing. With an error, it is
// not known what the client may see, and the scope shows nothing.
func (s *Server) anyScope(ctx context.Context) (*view.Scope, error) {
	scope, err := s.gate.Scope(subjectFrom(ctx))
	if err != nil && s.denied.first(err.Error()) {
		klog.FromContext(ctx).Error(err, "Applying the access rules to a client failed, and it gets no pods; further failures with this error are not logged")
	}
	return scope, err
}

// statusScope returns what the client sees in the status, which is also served without pods.
func (s *Server) statusScope(ctx context.Context) *view.Scope {
	scope, _ := s.anyScope(ctx)
	return scope
}

// seesPods reports whether the client of the request sees any pod.
func (s *Server) seesPods(ctx context.Context) (bool, error) {
	scope, err := s.anyScope(ctx)
	return !scope.Grant().Nothing(), err
}

// scope returns what the client of the request sees. If that is nothing, the error is Forbidden of
// apierrors. If it can't be told, the error has no status: the client tries again.
func (s *Server) scope(ctx context.Context) (*view.Scope, error) {
	scope, err := s.anyScope(ctx)
	switch {
	case err != nil:
		return nil, err
	case scope.Grant().Nothing():
		return nil, s.deny(ctx, scope, "read pods", "no access rule shows any to it")
	}
	return scope, nil
}

// scoped passes the scope of the client to a handler, and refuses a client that sees nothing.
func (s *Server) scoped(handle func(http.ResponseWriter, *http.Request, *view.Scope)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scope, err := s.scope(r.Context())
		if err != nil {
			answerError(w, err)
			return
		}
		handle(w, r, scope)
	}
}

// deny counts a refusal, logs the first of each subject, and returns its error.
func (s *Server) deny(ctx context.Context, scope *view.Scope, what, why string) error {
	if err := scope.Err(); err != nil { // nobody knows what the rules allow
		return err
	}
	s.metrics.denials.Inc()
	subject := scope.Subject()
	who := cut(subject.String())
	if s.denied.first(who) {
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
	if _, logged := d.subjects[subject]; logged || len(d.subjects) >= maxDenied {
		return false
	}
	if d.subjects == nil {
		d.subjects = make(map[string]struct{})
	}
	d.subjects[subject] = struct{}{}
	return true
}
