package rest

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// containers answers with the containers of the runtime, or serves their stream until the client disconnects or the server stops.
func (a *API) containers(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	query, err := params.ParseContainers(r.URL.RawQuery)
	if err == nil {
		err = a.CheckOwners(query.Owners, query.Selector.Owner)
	}
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if err := a.Containers.Check(); err != nil {
		respond.Failure(w, err)
		return
	}
	if query.Watch {
		a.subscribe(w, r, func(journal.Client) error {
			cursor := a.Containers.Watch(scope, query.WatchOptions)
			defer cursor.Close()
			return writeContainers(w, r, cursor)
		})
		return
	}
	a.Limits.Listed(func(w http.ResponseWriter, r *http.Request) {
		list, err := a.Containers.List(r.Context(), scope, query.WatchOptions)
		if err != nil {
			respond.Failure(w, err)
			return
		}
		if err := writeList(w, list); err != nil {
			klog.FromContext(r.Context()).V(3).Info("Writing the containers failed", "err", err)
		}
	})(w, r)
}

// writeContainers writes the updates of the cursor until an error, and returns the error.
func writeContainers(w http.ResponseWriter, r *http.Request, cursor *containers.Cursor) error {
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil { // the first flush sends the header
			return err
		}
		updates, err := cursor.Next(r.Context())
		if err != nil {
			return err
		}
		for _, u := range updates {
			if err := respond.Line(w, u); err != nil {
				return err
			}
		}
	}
}

// writeList writes a list. A client that does not read holds one container in memory, whose labels can be large.
func writeList(w http.ResponseWriter, list *v1alpha1.Containers) error {
	w.Header().Set("Content-Type", "application/json")
	if _, err := fmt.Fprintf(w, `{"instance":%q,"revision":%d,"containers":[`, list.Instance, list.Revision); err != nil {
		return err
	}
	for i := range list.Containers {
		if i > 0 {
			if _, err := io.WriteString(w, ","); err != nil {
				return err
			}
		}
		if err := respond.Line(w, &list.Containers[i]); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]}\n")
	return err
}
