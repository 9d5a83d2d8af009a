package rest

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// status answers with the status as JSON.
func (a *API) status(w http.ResponseWriter, r *http.Request) {
	data, err := a.StatusAnswer(r.Context(), "json", backend.StatusJSON)
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // fails only if the client has gone
}

// containerRuntime answers with the pods of the container runtime.
func (a *API) containerRuntime(w http.ResponseWriter, _ *http.Request, scope *view.Scope) {
	if a.Runtime == nil {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
			"there is no container runtime: name one with --container-runtime-endpoint")
		return
	}
	runtime := a.RuntimePods(scope)
	if err := scope.Err(); err != nil {
		answerError(w, err)
		return
	}
	respond.JSON(w, runtime)
}
