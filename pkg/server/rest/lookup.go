package rest

import (
	"net/http"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// lookup answers which pod an ID, an IP, a process or a cgroup belongs to.
func (a *API) lookup(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	query, err := params.ParseLookup(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if query.Wait > 0 {
		respond.Within(w, query.Wait+a.Limits.ListTimeout)
	}
	release, err := a.Admit(r.Context(), query)
	if err != nil {
		answerError(w, err)
		return
	}
	defer release()
	answer, err := a.Lookup.Find(r.Context(), scope, query)
	if err != nil {
		if r.Context().Err() != nil {
			err = backend.ErrStopping
		}
		answerError(w, err)
		return
	}
	respond.JSON(w, answer)
}
