// Package rest serves the paths of podconfigd over HTTP: the stream of updates as one JSON object per
// line, the status, the history, lookups, and /pods as the kubelet serves it. Errors are metav1.Status
// objects that name the invalid parameter.
package rest

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// API serves HTTP.
type API struct {
	*backend.Backend
	version any
}

// New returns the API of a backend. version is the object of /version.
func New(b *backend.Backend, version any) *API { return &API{Backend: b, version: version} }

// Route adds the paths of the requests that change nothing.
func (a *API) Route(mux respond.Router) {
	mux.HandleFunc("/v1alpha1/updates", a.scoped(a.updates))
	mux.HandleFunc("/v1alpha1/status", a.Limits.Listed(a.status))
	mux.HandleFunc("/v1alpha1/runtime", a.listed(a.containerRuntime))
	mux.HandleFunc("/v1alpha1/history", a.listed(a.history))
	mux.HandleFunc("/v1alpha1/lookup", a.lookup)
	mux.HandleFunc("/v1alpha1/containers", a.scoped(a.containers))
	mux.HandleFunc("/pods", a.listed(a.pods))
	mux.HandleFunc("/pods/{$}", a.listed(a.pods))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, a.version) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Error(w, http.StatusNotFound, fmt.Sprintf(
			"there is nothing at %s; there is /v1alpha1/updates, /v1alpha1/status, /v1alpha1/runtime, /v1alpha1/history, /v1alpha1/lookup, /v1alpha1/containers, /v1alpha1/resync, /v1alpha1/release, /pods, /api, /healthz, /livez, /readyz, /metrics and /version",
			r.URL.Path))
	})
}

// ReadOnly refuses every method but GET and HEAD.
func ReadOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			respond.Error(w, http.StatusMethodNotAllowed,
				fmt.Sprintf("%s is not supported: podconfigd is read-only", r.Method))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listed passes the scope of the client to a handler, and counts the request as a list. A client
// that sees nothing takes no place.
func (a *API) listed(handle func(http.ResponseWriter, *http.Request, *view.Scope)) http.HandlerFunc {
	return a.scoped(func(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
		a.Limits.Listed(func(w http.ResponseWriter, r *http.Request) { handle(w, r, scope) })(w, r)
	})
}

// scoped passes the scope of the client to a handler, and refuses a client that sees nothing.
func (a *API) scoped(handle func(http.ResponseWriter, *http.Request, *view.Scope)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scope, err := a.Scope(r.Context())
		if err != nil {
			respond.Failure(w, err)
			return
		}
		handle(w, r, scope)
	}
}

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
			respond.Failure(w, err)
			return
		}
		respond.JSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
	}
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
