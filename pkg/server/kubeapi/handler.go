// Package kubeapi serves the pods, the node and the namespaces of the journal as a read-only
// Kubernetes API: what kubectl and the Reflectors and informers of client-go need.
//
// # Pods
//
// Each namespace/name maps to one pod. If several sources have a pod with the name, it is the
// first by source and UID. A mirror pod is served only if no other pod has its name. The
// resourceVersion of a pod is the revision of the journal at which the name got this pod. The
// creationTimestamp of a static pod is the time at which it was first seen.
//
// # Nodes and namespaces
//
// There is one node, and the namespaces that have pods here. Each [resource] is an entry of one
// table, from which paths, discovery and reviews of access are made.
//
// # Lists and watches
//
// All pages of a list are of one revision. A list can be of an earlier revision that the
// journal still has. A watch starts at a revision, or with the current pods. With
// sendInitialEvents, a bookmark follows the current pods. If the revision is compacted, or the
// client falls behind, the watch ends with 410 Gone and the client lists again.
//
// Until every source has been seen, requests wait for a while and are then answered 503. An
// informer would take an incomplete list as complete and drop the missing pods.
//
// # Formats
//
// Pods and their metadata are served as JSON and protobuf, tables as JSON. Each format of a pod
// is encoded once for all clients.
//
// # Other requests
//
// Writes are answered 405. Reviews of the client's own access are answered. The API is
// described by the part of the OpenAPI document of Kubernetes that applies.
package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// readyTimeout is the time for which a request waits until the pods of every source
// are known.
const readyTimeout = 10 * time.Second

// API serves the Kubernetes API from a backend.
type API struct {
	*backend.Backend
	// readyTimeout is the time for which a request waits until every source has been seen or
	// restored.
	readyTimeout time.Duration
}

// New returns the API of a backend.
func New(b *backend.Backend) *API { return &API{Backend: b, readyTimeout: readyTimeout} }

// Route adds the paths of the API to the mux.
func (a *API) Route(mux respond.Router) {
	paths := map[string]http.HandlerFunc{
		"/api":        discovery(apiVersions, coreGroup()),
		"/apis":       discovery(apiGroups),
		"/openapi/v3": openAPIIndex,
		openAPIPath:   a.Limits.Listed(a.openAPI),
		"/api/v1":     object(apiResources()),
	}
	for _, res := range resources {
		all, one := res.paths()
		for _, path := range all {
			paths[path] = a.reads(res, a.all)
		}
		paths[one] = a.reads(res, a.one)
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
func (a *API) ready(w http.ResponseWriter, r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), a.readyTimeout)
	defer cancel()
	if a.Gate.WaitKnown(ctx) == nil {
		respond.Restored(w, a.Gate.Restored())
		return true
	}
	status := apistatus.Status(http.StatusServiceUnavailable,
		fmt.Sprintf("the pods are not known yet: %v", a.Gate.CheckKnown()))
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	respond.Status(w, status)
	return false
}

// reads returns the handler of a resource. It answers invalid requests, and waits for the pods.
func (a *API) reads(res *resource, answer func(http.ResponseWriter, *http.Request, *options)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		opts, status := parseOptions(r, res)
		if status == nil {
			if err := a.CheckOwners(false, opts.selector.Owner); err != nil {
				status = badRequest(err)
			}
		}
		if status != nil {
			respond.Status(w, status)
			return
		}
		if opts.scope = a.scopeOf(w, r); opts.scope != nil && a.ready(w, r) {
			answer(w, r, opts)
		}
	}
}

// all lists or watches.
func (a *API) all(w http.ResponseWriter, r *http.Request, opts *options) {
	if opts.watch {
		a.watch(w, r, opts)
	} else {
		a.Limits.Listed(func(w http.ResponseWriter, _ *http.Request) { a.list(w, opts) })(w, r)
	}
}

// scopeOf returns what the client sees. If that is nothing, or if the rules can't be applied, it answers
// and returns nil.
func (a *API) scopeOf(w http.ResponseWriter, r *http.Request) *view.Scope {
	scope, err := a.Scope(r.Context())
	if err == nil {
		return scope
	}
	respond.Failure(w, err)
	return nil
}

// Has reports whether a path belongs to the API.
func Has(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/")
}

// Write refuses a request that is neither GET nor HEAD.
func Write(w http.ResponseWriter, r *http.Request) {
	if instead := apistatus.Instead(strings.TrimSuffix(r.URL.Path, "/")); instead != "" {
		respond.Error(w, http.StatusMethodNotAllowed, instead)
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	respond.Error(w, http.StatusMethodNotAllowed, fmt.Sprintf(
		"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
}

// expired is the status for a compacted revision.
//
// apiserver: apierrors.NewResourceExpired.
func expired(err *journal.CompactedError) *metav1.Status {
	return apistatus.Status(http.StatusGone, "too old resource version: "+err.Error())
}

// tooLarge is the status for a revision that does not exist yet.
//
// apiserver: apiserver/pkg/storage NewTooLargeResourceVersionError.
func tooLarge(revision, head int64) *metav1.Status {
	status := apistatus.Status(http.StatusGatewayTimeout,
		fmt.Sprintf("Too large resource version: %d, current: %d", revision, head))
	status.Details = &metav1.StatusDetails{
		RetryAfterSeconds: 1,
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
	}
	return status
}

func notFound(w http.ResponseWriter, r *http.Request) {
	if instead := apistatus.Instead(r.URL.Path); instead != "" {
		respond.Error(w, http.StatusNotFound, instead)
		return
	}
	respond.Error(w, http.StatusNotFound, fmt.Sprintf(
		"the server could not find the requested resource: there is nothing at %s; podconfigd has %s", r.URL.Path, resourceNames()))
}

func badRequest(err error) *metav1.Status {
	return apistatus.Status(http.StatusBadRequest, err.Error())
}

// notAcceptable is the status for a format that is not served.
func notAcceptable(r *http.Request) *metav1.Status {
	return apistatus.Status(http.StatusNotAcceptable, fmt.Sprintf(
		"only the following media types are accepted: %s and %s, both also with as=PartialObjectMetadata (for a list, as=PartialObjectMetadataList);g=meta.k8s.io;v=v1, "+
			"and %s;as=Table;g=meta.k8s.io;v=v1; not %q",
		jsonType, protobufType, jsonType, r.Header.Get("Accept")))
}

// resourceNames returns the names of all resources.
func resourceNames() string {
	names := make([]string, len(resources))
	for i, res := range resources {
		names[i] = res.Name
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
