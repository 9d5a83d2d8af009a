package rest

import (
	"bufio"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// listBuffer is the number of bytes of a list that are written at once.
const listBuffer = 16 << 10

// pods answers with the current pods.
func (a *API) pods(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	query, err := params.ParsePods(r.URL.RawQuery)
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
		answerError(w, err)
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
