package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

func notFound(w http.ResponseWriter, r *http.Request) {
	respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf(
		"the server could not find the requested resource: there is nothing at %s; podconfigd has pods only", r.URL.Path))
}

// Discovery, as a server that has pods only.
var (
	apiVersions = &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
	apiGroups = &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	apiResources = &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1",
		APIResources: []metav1.APIResource{{
			Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod",
			Verbs: podVerbs, ShortNames: []string{"po"}, Categories: []string{"all"},
		}},
	}
)

func object(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, v) }
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

// pod answers with one pod.
func (h *Handler) pod(w http.ResponseWriter, r *http.Request) {
	opts, status := parseOptions(r)
	if status != nil {
		respond.Status(w, status)
		return
	}
	if !h.ready(w, r) {
		return
	}
	if head := h.opts.Journal.Revision(); opts.revision > head {
		respond.Status(w, tooLarge(opts.revision, head))
		return
	}
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	pod := h.opts.Journal.ByName(name)
	if pod == nil {
		status := respond.StatusOf(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("pods %q not found", name.Name))
		status.Details = &metav1.StatusDetails{Name: name.Name, Kind: "pods"}
		respond.Status(w, status)
		return
	}
	var data []byte
	var err error
	if opts.form.table {
		data, err = opts.form.tableOf(true, pod.Revision, pod)
	} else {
		data, err = opts.form.object(nil, pod, pod.Revision)
	}
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", opts.form.contentType)
	_, _ = w.Write(data) // the client may have gone away
}
