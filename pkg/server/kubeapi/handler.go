package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// DefaultReadyTimeout is the time for which a request waits until the pods of every source
// are known.
const DefaultReadyTimeout = 10 * time.Second

// Options configures the API.
type Options struct {
	// Gate is the gate of the journal. Scope returns what the client of a request sees of its
	// pods; see Gate.Scope. It returns Forbidden if that is nothing, and another error if it can't
	// be told. It is the only way to the pods.
	Gate  *view.Gate
	Scope func(context.Context) (*view.Scope, error)
	// ReadyTimeout is the time for which a request waits until every source has been seen or
	// restored.
	ReadyTimeout time.Duration
	// ListTimeout is the time in which a client must read a list.
	ListTimeout time.Duration
	// List and Subscribe count a list or a stream until release is called. If a limit is
	// reached, they return a refusal.
	List      func(context.Context) (release func(), refusal error)
	Subscribe func(*http.Request) (release func(), refusal error)
	// Client returns the client of a request, and the [view.Options] Drained for its watch.
	Client func(*http.Request) (client journal.Client, drained func(context.Context) error)
}

// handler serves the API.
type handler struct{ opts Options }

// Register adds the paths of the API to the mux.
func Register(mux respond.Router, opts Options) {
	h := &handler{opts}
	paths := map[string]http.HandlerFunc{
		"/api":        discovery(apiVersions, coreGroup()),
		"/apis":       discovery(apiGroups),
		"/openapi/v2": openAPIEmpty,
		"/openapi/v3": openAPIIndex,
		openAPIPath:   h.openAPI,
		"/api/v1":     object(apiResources()),
	}
	for _, res := range resources {
		all, one := res.paths()
		for _, path := range all {
			paths[path] = func(w http.ResponseWriter, r *http.Request) { h.all(w, r, res) }
		}
		paths[one] = func(w http.ResponseWriter, r *http.Request) { h.one(w, r, res) }
	}
	for path, handler := range paths {
		mux.HandleFunc(path, handler)
		mux.HandleFunc(path+"/{$}", handler) // as the apiserver does
	}
	for _, prefix := range []string{"/api/", "/apis/", "/openapi/"} {
		mux.HandleFunc(prefix, notFound)
	}
}

// ready waits until every source has been seen or restored. If that takes too long, it answers
// and returns false. A header of the answer names the sources that are only restored.
func (h *handler) ready(w http.ResponseWriter, r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), h.opts.ReadyTimeout)
	defer cancel()
	if h.opts.Gate.WaitKnown(ctx) == nil {
		respond.Restored(w, h.opts.Gate.Restored())
		return true
	}
	status := respond.StatusOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		fmt.Sprintf("the pods are not known yet: %v", h.opts.Gate.CheckKnown()))
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	respond.Status(w, status)
	return false
}

// all lists or watches.
func (h *handler) all(w http.ResponseWriter, r *http.Request, res *resource) {
	opts, status := parseOptions(r, res)
	if status != nil {
		respond.Status(w, status)
		return
	}
	if opts.scope = h.scope(w, r); opts.scope == nil || !h.ready(w, r) {
		return
	}
	if opts.watch {
		h.watch(w, r, opts)
	} else {
		h.list(w, r, opts)
	}
}

// scope returns what the client sees. If that is nothing or can't be told, it answers and returns nil.
func (h *handler) scope(w http.ResponseWriter, r *http.Request) *view.Scope {
	scope, err := h.opts.Scope(r.Context())
	if err == nil {
		return scope
	}
	status := respond.StatusOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	if apierrors.IsForbidden(err) {
		status = respond.StatusOf(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
		status.Details = &metav1.StatusDetails{Kind: "pods"}
	}
	respond.Status(w, status)
	return nil
}
