package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// DefaultReadyTimeout is how long a request waits for the sources.
const DefaultReadyTimeout = 10 * time.Second

// Options are what a handler needs.
type Options struct {
	Journal *journal.Journal
	// Unready returns what is missing until every source has been seen.
	Unready func() error
	// ReadyTimeout is how long a request waits for that.
	ReadyTimeout time.Duration
	// ListTimeout is how long a client may take to read a list.
	ListTimeout time.Duration
	// List and Subscribe take a place among those who are given a list or a stream, until
	// release is called, or return why there is none.
	List, Subscribe func(context.Context) (release func(), refusal error)
	// Client says who makes a request.
	Client func(*http.Request) journal.Client
}

// Handler serves the API.
type Handler struct{ opts Options }

// Register puts the API's paths into the mux.
func Register(mux *http.ServeMux, opts Options) {
	h := &Handler{opts}
	for path, handler := range map[string]http.HandlerFunc{
		"/api":                                object(apiVersions),
		"/apis":                               object(apiGroups),
		"/openapi/v2":                         openAPIEmpty,
		"/openapi/v3":                         openAPIIndex,
		openAPIPath:                           h.openAPI,
		"/api/v1":                             object(apiResources),
		"/api/v1/pods":                        h.pods,
		"/api/v1/namespaces/{namespace}/pods": h.pods,
		"/api/v1/namespaces/{namespace}/pods/{name}": h.pod,
	} {
		mux.HandleFunc(path, handler)
		mux.HandleFunc(path+"/{$}", handler) // the same, as for the apiserver
	}
	for _, prefix := range []string{"/api/", "/apis/", "/openapi/"} {
		mux.HandleFunc(prefix, notFound)
	}
}

// ready waits until every source has been seen, and answers where that takes too
// long.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), h.opts.ReadyTimeout)
	defer cancel()
	if h.opts.Journal.WaitReady(ctx) == nil {
		return true
	}
	status := respond.StatusOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		fmt.Sprintf("the pods are not known yet: %v", h.opts.Unready()))
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	respond.Status(w, status)
	return false
}

// pods lists or watches.
func (h *Handler) pods(w http.ResponseWriter, r *http.Request) {
	opts, status := parseOptions(r)
	if status != nil {
		respond.Status(w, status)
		return
	}
	if !h.ready(w, r) {
		return
	}
	if opts.watch {
		h.watch(w, r, opts)
	} else {
		h.list(w, r, opts)
	}
}
