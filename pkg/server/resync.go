package server

import (
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

func (s *Server) resync(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL.RawQuery, []string{"namespace", "name"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	for _, name := range []string{"namespace", "name"} {
		if problems := validation.IsDNS1123Subdomain(values[name]); len(problems) > 0 {
			respond.BadRequest(w, fmt.Errorf("parameter %q: %q: %s", name, values[name], problems[0]))
			return
		}
	}
	err = s.opts.Resync(r.Context(), values["namespace"], values["name"])
	var retry *RetryError
	switch {
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
