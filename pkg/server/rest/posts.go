package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/failure"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Posts returns the handlers of the paths that take a POST.
func (a *API) Posts() map[string]http.HandlerFunc {
	posts := make(map[string]http.HandlerFunc)
	if a.Resync != nil {
		posts["/v1alpha1/resync"] = post(a.postResync)
	}
	if a.Release != nil {
		posts["/v1alpha1/release"] = post(a.postRelease)
	}
	return posts
}

// post returns the handler of a POST. It answers with success, or with the error of do.
func post(do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			respond.Error(w, http.StatusMethodNotAllowed,
				fmt.Sprintf("%s is not supported here: POST it", r.Method))
			return
		}
		if err := do(r); err != nil {
			answerError(w, err)
			return
		}
		respond.JSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
	}
}

// answerError answers with the code and the reason of an error. An error without a status means that the
// daemon can't answer now.
func answerError(w http.ResponseWriter, err error) {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	status := failure.Status(http.StatusServiceUnavailable, err.Error())
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status.Code, status.Reason = known.ErrStatus.Code, known.ErrStatus.Reason
	}
	respond.Status(w, status)
}

func (a *API) postResync(r *http.Request) error {
	pod, err := params.ParseResync(r.URL.RawQuery)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return a.ResyncPod(r.Context(), pod)
}

func (a *API) postRelease(r *http.Request) error {
	query, err := params.ParseRelease(r.URL.RawQuery)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return a.ReleaseSource(r.Context(), query)
}
