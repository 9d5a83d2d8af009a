package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

const resyncPath = "/v1alpha1/resync"

// ErrNotFound and a RetryError are what Options.Resync answers with beside other
// errors.
var ErrNotFound = errors.New("not found")

// RetryError says that something was asked for too often.
type RetryError struct {
	Err error
	// After is after what time it can be had.
	After time.Duration
}

// Error returns the error's message.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *RetryError) Unwrap() error { return e.Err }

// runtime answers with what the container runtime has.
func (s *Server) runtime(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Runtime == nil {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
			"there is no container runtime: name one with --container-runtime-endpoint")
		return
	}
	respond.JSON(w, s.opts.Runtime())
}

// handleResync serves what can be posted: that a pod be offered again.
func (s *Server) handleResync(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != resyncPath || s.opts.Resync == nil {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
				fmt.Sprintf("%s is not supported here: POST it", r.Method))
			return
		}
		s.resync(w, r)
	})
}

// invalidError says that there can be no pod of a name.
type invalidError struct{ parameter, value, problem string }

// Error names the parameter.
func (e *invalidError) Error() string {
	if e.value == "" {
		return fmt.Sprintf("parameter %q: %s", e.parameter, e.problem)
	}
	return fmt.Sprintf("parameter %q: %q: %s", e.parameter, e.value, e.problem)
}

// offerAgain has a pod offered again.
func (s *Server) offerAgain(ctx context.Context, namespace, name string) error {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			return &invalidError{p.parameter, p.value, "it is missing"}
		}
		if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			return &invalidError{p.parameter, p.value, problems[0]}
		}
	}
	if s.opts.Resync == nil {
		return errors.New("there is nothing that could offer a pod again")
	}
	return s.opts.Resync(ctx, namespace, name)
}

func (s *Server) resync(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL.RawQuery, []string{"namespace", "name"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	err = s.offerAgain(r.Context(), values["namespace"], values["name"])
	var retry *RetryError
	var invalid *invalidError
	switch {
	case errors.As(err, &invalid):
		respond.BadRequest(w, err)
	case err == nil:
		respond.JSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
	case errors.Is(err, ErrNotFound):
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	case errors.As(err, &retry):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.After.Seconds()))))
		respond.Error(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, err.Error())
	default:
		respond.Error(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	}
}
