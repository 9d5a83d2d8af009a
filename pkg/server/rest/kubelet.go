package rest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/podconfigd/podconfigd/internal/crictl"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// kubeletPaths has the paths of the kubelet that podconfigd does not serve, and what to use instead. They
// include the paths below them.
//
// kubelet: pkg/kubelet/server/server.go.
var kubeletPaths = map[string]string{
	"/attach":           execInstead,
	"/checkpoint":       execInstead,
	"/configz":          "/v1alpha1/status has the state of podconfigd",
	"/containerLogs":    execInstead,
	"/cri":              execInstead,
	"/debug":            measureInstead,
	"/exec":             execInstead,
	"/flagz":            "/v1alpha1/status has the state of podconfigd",
	"/logs":             "podconfigd writes its log to stderr",
	"/metrics/cadvisor": measureInstead,
	"/metrics/probes":   "podconfigd runs no probes",
	"/metrics/resource": measureInstead,
	"/metrics/slis":     measureInstead,
	"/portForward":      execInstead,
	"/run":              execInstead,
	"/runningpods":      "/v1alpha1/runtime has the pods of the container runtime",
	"/spec":             "/api/v1/nodes has what podconfigd knows of the node",
	"/stats":            "podconfigd measures no pods; /metrics has its own metrics",
	"/statusz":          "/v1alpha1/status has the state of podconfigd",
}

const (
	execInstead    = crictl.Text
	measureInstead = "podconfigd measures no pods; /metrics has its own metrics"
)

// OfKubelet reports whether a path is one of the kubelet that podconfigd does not serve.
func OfKubelet(path string) bool {
	of, _ := kubeletPath(path)
	return of != ""
}

// NotKubelet answers a request for a path of the kubelet.
func NotKubelet(w http.ResponseWriter, r *http.Request) {
	path, instead := kubeletPath(r.URL.Path)
	respond.Error(w, http.StatusNotFound, fmt.Sprintf(
		"%s is a path of the kubelet, and podconfigd is no kubelet: %s", path, instead))
}

// kubeletPath returns the path of the kubelet to which a path belongs, and what there is
// instead; "" for none.
func kubeletPath(path string) (of, instead string) {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	for n := 1; n <= min(2, len(parts)); n++ {
		of = "/" + strings.Join(parts[:n], "/")
		if instead = kubeletPaths[of]; instead != "" {
			return of, instead
		}
	}
	return "", ""
}
