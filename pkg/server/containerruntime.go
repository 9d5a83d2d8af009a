package server

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// containerRuntime answers with the pods of the container runtime.
func (s *Server) containerRuntime(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Runtime == nil {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
			"there is no container runtime: name one with --container-runtime-endpoint")
		return
	}
	respond.JSON(w, s.opts.Runtime())
}
