package server

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// containerRuntime answers with the pods of the container runtime.
func (s *Server) containerRuntime(w http.ResponseWriter, _ *http.Request, scope *view.Scope) {
	if s.opts.Runtime == nil {
		respond.Error(w, http.StatusNotFound, metav1.StatusReasonNotFound,
			"there is no container runtime: name one with --container-runtime-endpoint")
		return
	}
	runtime := s.runtimePods(scope)
	if err := scope.Err(); err != nil {
		answerError(w, err)
		return
	}
	respond.JSON(w, runtime)
}

// runtimePods returns the pods of the container runtime that the client sees.
func (s *Server) runtimePods(scope *view.Scope) v1alpha1.RuntimePods {
	runtime := s.opts.Runtime()
	runtime.Pods = slices.DeleteFunc(runtime.Pods, func(p v1alpha1.RuntimePod) bool {
		return !scope.SeesRuntimePod(types.UID(p.UID), p.Namespace)
	})
	return runtime
}
