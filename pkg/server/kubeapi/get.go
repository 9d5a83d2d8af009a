package kubeapi

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// pod answers a request for one pod.
func (h *handler) pod(w http.ResponseWriter, r *http.Request) {
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
