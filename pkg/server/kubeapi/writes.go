package kubeapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/podconfigd/podconfigd/internal/failure"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Has reports whether a path belongs to the API.
func Has(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/")
}

// Write refuses a request that is neither GET nor HEAD.
func Write(w http.ResponseWriter, r *http.Request) {
	if instead := failure.Instead(strings.TrimSuffix(r.URL.Path, "/")); instead != "" {
		respond.Error(w, http.StatusMethodNotAllowed, instead)
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	respond.Error(w, http.StatusMethodNotAllowed, fmt.Sprintf(
		"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
}
