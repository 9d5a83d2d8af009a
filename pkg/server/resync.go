package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

const resyncPath = "/v1alpha1/resync"

// handleResync serves the only path that takes a POST, and passes all other requests on.
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
		s.postResync(w, r)
	})
}

func (s *Server) postResync(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL.RawQuery, []string{"namespace", "name"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if err := s.resync(r.Context(), values["namespace"], values["name"]); err != nil {
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
		}
		status := statusOf(err)
		respond.Error(w, int(status.Code), status.Reason, status.Message)
		return
	}
	respond.JSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
}

// resync sends a SYNC for one pod to its subscribers. Its errors are those of
// Options.Resync, and a BadRequest of apierrors if no pod can have the name.
func (s *Server) resync(ctx context.Context, namespace, name string) error {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: required", p.parameter))
		}
		if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %q: %s", p.parameter, p.value, problems[0]))
		}
	}
	if s.opts.Resync == nil {
		return errors.New("this server sends no SYNC on request")
	}
	return s.opts.Resync(ctx, namespace, name)
}

// statusOf returns the status of an error of resync. An error without one means that the
// daemon can't answer now.
func statusOf(err error) metav1.Status {
	status := apierrors.NewServiceUnavailable("").ErrStatus
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = known.ErrStatus
	}
	status.Message = err.Error()
	return status
}
