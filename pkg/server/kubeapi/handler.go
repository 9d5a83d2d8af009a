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

// DefaultReadyTimeout is the time for which a request waits until the pods of every source
// are known.
const DefaultReadyTimeout = 10 * time.Second

// Options configures the API.
type Options struct {
	Journal *journal.Journal
	// ReadyTimeout is the time for which a request waits until every source has been seen or
	// restored.
	ReadyTimeout time.Duration
	// ListTimeout is the time in which a client must read a list.
	ListTimeout time.Duration
	// List and Subscribe count a list or a stream until release is called. If a limit is
	// reached, they return a refusal.
	List, Subscribe func(context.Context) (release func(), refusal error)
	// Client returns the client of a request, and the [view.Options] Drained for its watch.
	Client func(*http.Request) (client journal.Client, drained func(context.Context) error)
}

// handler serves the API.
type handler struct{ opts Options }

// Register adds the paths of the API to the mux.
func Register(mux *http.ServeMux, opts Options) {
	h := &handler{opts}
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
	if h.opts.Journal.WaitKnown(ctx) == nil {
		respond.Restored(w, h.opts.Journal.Restored())
		return true
	}
	status := respond.StatusOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		fmt.Sprintf("the pods are not known yet: %v", h.opts.Journal.CheckKnown()))
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	respond.Status(w, status)
	return false
}

// pods lists or watches.
func (h *handler) pods(w http.ResponseWriter, r *http.Request) {
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
