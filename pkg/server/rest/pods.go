package rest

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// listBuffer is the number of bytes of a list that are written at once.
const listBuffer = 16 << 10

// pods answers with the current pods. Like /pods of the kubelet, the answer has mirror pods
// only if the query has mirrorPods=true. With
// resourceVersions=true, pods are as in the Kubernetes API.
func (a *API) pods(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	values, err := params.Parameters(r.URL.RawQuery, []string{"mirrorPods", "fields", "resourceVersions"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	mirrorPods, err := params.ParseBool(values["mirrorPods"], false)
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("parameter \"mirrorPods\": %w", err))
		return
	}
	fields, err := params.ParseFields(values["fields"])
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("parameter \"fields\": %w", err))
		return
	}
	versions, err := params.ParseBool(values["resourceVersions"], false)
	if err == nil && versions && fields != nil {
		err = errors.New("not supported with \"fields\"")
	}
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("parameter \"resourceVersions\": %w", err))
		return
	}
	write := wire.WriteList
	if versions {
		write = wire.WriteObjects
	}
	state, err := scope.State(view.Selector{NoMirrorPods: !mirrorPods}, fields)
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
