package rest

import (
	"bufio"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// listBuffer is the number of bytes of a list that are written at once.
const listBuffer = 16 << 10

// pods answers with the current pods.
func (a *API) pods(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	query, err := params.ParsePods(r.URL.RawQuery)
	if err == nil {
		err = a.CheckOwners(false, query.Selector.Owner)
	}
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	write := wire.WriteList
	if query.Versions {
		write = wire.WriteObjects
	}
	state, err := scope.State(query.Selector, query.Fields)
	if err != nil {
		respond.Failure(w, err)
		return
	}
	respond.Restored(w, state.Bookmark.AllRestored())
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, listBuffer)
	if err = write(out, state.Revision, state.Pods); err == nil {
		err = out.Flush()
	}
	if err != nil {
		klog.FromContext(r.Context()).V(3).Info("Writing the pods failed", "err", err)
	}
}

// status answers with the status as JSON.
func (a *API) status(w http.ResponseWriter, r *http.Request) {
	data, err := a.StatusAnswer(r.Context(), "json", backend.StatusJSON)
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // fails only if the client has gone
}

// containerRuntime answers with the pods of the container runtime.
func (a *API) containerRuntime(w http.ResponseWriter, _ *http.Request, scope *view.Scope) {
	if a.Runtime == nil {
		respond.Error(w, http.StatusNotFound,
			"there is no container runtime: name one with --container-runtime-endpoint")
		return
	}
	runtime := a.RuntimePods(scope)
	if err := scope.Err(); err != nil {
		respond.Failure(w, err)
		return
	}
	respond.JSON(w, runtime)
}

// lookup answers which pod an ID, an IP, a process or a cgroup belongs to.
func (a *API) lookup(w http.ResponseWriter, r *http.Request) {
	query, err := params.ParseLookup(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if query.Wait > 0 {
		respond.Within(w, query.Wait+a.Limits.ListTimeout)
	}
	scope, release, err := a.Admit(r.Context(), query)
	if err != nil {
		respond.Failure(w, err)
		return
	}
	defer release()
	answer, err := a.Find(r.Context(), scope, query)
	if err != nil {
		if r.Context().Err() != nil {
			err = backend.ErrStopping
		}
		respond.Failure(w, err)
		return
	}
	respond.JSON(w, answer)
}
