package server

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// posts returns the paths that take a POST, each with its function.
func (s *Server) posts() map[string]func(*http.Request) error {
	posts := make(map[string]func(*http.Request) error)
	if s.opts.Resync != nil {
		posts["/v1alpha1/resync"] = s.postResync
	}
	if s.opts.Release != nil {
		posts["/v1alpha1/release"] = s.postRelease
	}
	return posts
}

// handlePosts serves the paths that take a POST, and passes all other requests on.
func (s *Server) handlePosts(next http.Handler) http.Handler {
	posts := s.posts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		post := posts[r.URL.Path]
		switch {
		case post == nil:
			next.ServeHTTP(w, r)
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
				fmt.Sprintf("%s is not supported here: POST it", r.Method))
		default:
			answerPost(w, post(r))
		}
	})
}

// answerPost answers a POST that has succeeded, or failed with an error that may have a
// status.
func answerPost(w http.ResponseWriter, err error) {
	if err == nil {
		respond.JSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
		return
	}
	answerError(w, err)
}

// answerError answers with the status of an error.
func answerError(w http.ResponseWriter, err error) {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	status := statusOf(err)
	respond.Error(w, int(status.Code), status.Reason, status.Message)
}

// statusOf returns the status of an error. An error without one means that the daemon can't
// answer now.
func statusOf(err error) metav1.Status {
	status := apierrors.NewServiceUnavailable("").ErrStatus
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = known.ErrStatus
	}
	status.Message = err.Error()
	return status
}

// callCodes has the code of each status that a call can fail with. All other errors mean
// that the daemon can't answer now.
var callCodes = map[metav1.StatusReason]codes.Code{
	metav1.StatusReasonBadRequest:      codes.InvalidArgument,
	metav1.StatusReasonNotFound:        codes.NotFound,
	metav1.StatusReasonForbidden:       codes.PermissionDenied,
	metav1.StatusReasonConflict:        codes.FailedPrecondition,
	metav1.StatusReasonTooManyRequests: codes.ResourceExhausted,
}

// callError returns the gRPC error for an error that may have a status; nil for none.
func callError(err error) error {
	if err == nil {
		return nil
	}
	code, known := callCodes[apierrors.ReasonForError(err)]
	if !known {
		code = codes.Unavailable
	}
	return status.Error(code, err.Error())
}
