package auth

import (
	"net/http"
	"path"
	"strings"
)

// Attributes are the permission that a request requires: a verb on a subresource of the node. Permission
// for one of the subresources is enough.
type Attributes struct {
	Verb         string
	Subresources []string
}

// Subresources of nodes, as for the kubelet.
const (
	subresourcePods    = "pods"
	subresourceMetrics = "metrics"
	subresourceHealthz = "healthz"
	subresourceProxy   = "proxy"
)

var (
	ofPods    = []string{subresourcePods, subresourceProxy}
	ofHealth  = []string{subresourceHealthz, subresourceProxy}
	ofMetrics = []string{subresourceMetrics}
	ofProxy   = []string{subresourceProxy}
)

// rule has the attributes of the requests for a path and the paths below it. If verb is empty, it follows
// from the method of HTTP.
type rule struct {
	path         string
	verb         string
	subresources []string
}

// The first rule that matches counts. A path without a rule requires nodes/proxy.
//
// kubelet: pkg/kubelet/server/auth.go GetRequestAttributes, with KubeletFineGrainedAuthz.
var rules = []rule{
	{"/pods", "", ofPods},
	{"/healthz", "", ofHealth},
	{"/livez", "", ofHealth},
	{"/readyz", "", ofHealth},
	{"/metrics/devices", "", ofPods}, // they name pods
	{"/metrics", "", ofMetrics},
	{"/v1alpha1/updates", "", ofPods},
	{"/api", "", ofPods},
	{"/apis", "", ofPods},
	{"/openapi", "", ofPods},
	{"/version", "", ofPods},
	// Calls of gRPC that only read. All calls are posted, so others create nodes/proxy.
	{"/podconfigd.v1alpha1.PodConfig/Watch", "get", ofPods},
	{"/podconfigd.v1alpha1.PodConfig/List", "get", ofPods},
	{"/podconfigd.v1alpha1.PodConfig/Status", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/History", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/Lookup", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/LookupStream", "get", ofProxy},
	{"/v1alpha1.Pods/WatchPods", "get", ofPods},
	{"/v1alpha1.Pods/ListPods", "get", ofPods},
	{"/v1alpha1.Pods/GetPod", "get", ofPods},
	{"/grpc.health.v1.Health/Check", "get", ofHealth},
	{"/grpc.health.v1.Health/List", "get", ofHealth},
	{"/grpc.health.v1.Health/Watch", "get", ofHealth},
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "get", ofPods},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "get", ofPods},
}

// verbs has the verb of each method of HTTP. Other methods have none.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// AttributesOf returns the attributes of a request over HTTP, or of a call of gRPC, whose path is
// the full name of its method.
func AttributesOf(method, requestPath string) Attributes {
	attributes := Attributes{Verb: verbs[method], Subresources: ofProxy}
	if path.Clean(requestPath) != strings.TrimSuffix(requestPath, "/") {
		return attributes // another server may read it as another path
	}
	for _, r := range rules {
		rest, ok := strings.CutPrefix(requestPath, r.path)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		attributes.Subresources = r.subresources
		if r.verb != "" {
			attributes.Verb = r.verb
		}
		return attributes
	}
	return attributes
}
