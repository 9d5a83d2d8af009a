package server

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// listBuffer is how many bytes of a list go out together.
const listBuffer = 16 << 10

// pods answers with the present pods, as the kubelet's /pods: without mirror pods, unless
// they are asked for.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	values, err := parameters(r.URL.RawQuery, []string{"mirrorPods"})
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	mirrorPods, err := parseBool(values["mirrorPods"], false)
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("parameter \"mirrorPods\": %w", err))
		return
	}
	selector := view.Selector{NoMirrorPods: !mirrorPods}
	state := s.journal.State()
	state.Pods = slices.DeleteFunc(state.Pods, func(p *journal.Pod) bool { return !selector.Matches(p) })
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, listBuffer)
	if err = wire.WriteList(out, state.Revision, state.Pods); err == nil {
		err = out.Flush()
	}
	if err != nil {
		klog.FromContext(r.Context()).V(3).Info("Writing the pods failed", "err", err)
	}
}
