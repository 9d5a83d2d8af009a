package kubeapi

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// one answers a request for one object.
func (a *API) one(w http.ResponseWriter, r *http.Request, res *resource) {
	opts, status := parseOptions(r, res)
	if status != nil {
		respond.Status(w, status)
		return
	}
	if opts.scope = a.scopeOf(w, r); opts.scope == nil || !a.ready(w, r) {
		return
	}
	if head := a.Gate.Revision(); opts.revision > head {
		respond.Status(w, tooLarge(opts.revision, head))
		return
	}
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	found := res.get(opts.scope, name)
	if found == nil {
		if err := opts.scope.Err(); err != nil {
			respond.Error(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
			return
		}
		status := respond.StatusOf(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", res.Name, name.Name))
		status.Details = &metav1.StatusDetails{Name: name.Name, Kind: res.Name}
		respond.Status(w, status)
		return
	}
	var data []byte
	var err error
	if opts.form.table {
		data, err = opts.form.tableOf(true, found.version(), found)
	} else {
		data, err = opts.form.object(nil, found, found.version())
	}
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", opts.form.contentType)
	_, _ = w.Write(data) // the client may have gone away
}
