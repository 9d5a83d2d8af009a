package rest

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Posts returns the paths that take a POST, each with its function.
func (a *API) Posts() map[string]func(*http.Request) error {
	posts := make(map[string]func(*http.Request) error)
	if a.Resync != nil {
		posts["/v1alpha1/resync"] = a.postResync
	}
	if a.Release != nil {
		posts["/v1alpha1/release"] = a.postRelease
	}
	return posts
}

// HandlePosts serves the paths that take a POST, and passes all other requests on.
func (a *API) HandlePosts(next http.Handler) http.Handler {
	posts := a.Posts()
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

func (a *API) postResync(r *http.Request) error {
	values, err := params.Parameters(r.URL.RawQuery, []string{"namespace", "name"})
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return a.ResyncPod(r.Context(), values["namespace"], values["name"])
}

func (a *API) postRelease(r *http.Request) error {
	values, err := params.Parameters(r.URL.RawQuery, []string{"source", "removes"})
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var most *int
	if text, ok := values["removes"]; ok {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: expected a number of pods, 0 to %d, got %q", "removes", math.MaxInt32, text))
		}
		most = new(int(n))
	}
	return a.ReleaseSource(r.Context(), values["source"], most)
}

// RefusePosts refuses the paths that take a POST, and passes all other requests on. why is the reason.
func (a *API) RefusePosts(next http.Handler, why string) http.Handler {
	posts := a.Posts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts[r.URL.Path] != nil {
			respond.Error(w, http.StatusForbidden, metav1.StatusReasonForbidden, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}
