package auth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Every path that is served, and what it takes.
func TestAttributesOf(t *testing.T) {
	for _, row := range []struct{ method, path, verb, subresources string }{
		{"GET", "/pods", "get", "pods,proxy"},
		{"GET", "/pods/", "get", "pods,proxy"},
		{"HEAD", "/pods", "get", "pods,proxy"},
		{"POST", "/pods", "create", "pods,proxy"},
		{"GET", "/podsx", "get", "proxy"},
		{"GET", "/healthz", "get", "healthz,proxy"},
		{"GET", "/healthz/ping", "get", "healthz,proxy"},
		{"GET", "/livez", "get", "healthz,proxy"},
		{"GET", "/readyz", "get", "healthz,proxy"},
		{"GET", "/metrics", "get", "metrics"},
		{"GET", "/metrics/devices", "get", "pods,proxy"},
		{"GET", "/metrics/other", "get", "metrics"},
		{"GET", "/metrics/", "get", "metrics"},
		{"GET", "/v1alpha1/updates", "get", "pods,proxy"},
		{"GET", "/v1alpha1/status", "get", "proxy"},
		{"GET", "/v1alpha1/runtime", "get", "proxy"},
		{"GET", "/v1alpha1/history", "get", "proxy"},
		{"GET", "/v1alpha1/lookup", "get", "proxy"},
		{"GET", "/v1alpha1/containers", "get", "proxy"},
		{"POST", "/v1alpha1/resync", "create", "proxy"},
		{"POST", "/v1alpha1/release", "create", "proxy"},
		{"GET", "/v1alpha1/release", "get", "proxy"},
		{"GET", "/version", "get", "pods,proxy"},
		{"GET", "/api", "get", "pods,proxy"},
		{"GET", "/apis", "get", "pods,proxy"},
		{"GET", "/api/v1", "get", "pods,proxy"},
		{"GET", "/api/v1/pods", "get", "pods,proxy"},
		{"GET", "/api/v1/namespaces/default/pods/a", "get", "pods,proxy"},
		{"GET", "/api/v1/nodes", "get", "pods,proxy"},
		{"DELETE", "/api/v1/namespaces/default/pods/a", "delete", "pods,proxy"},
		{"PATCH", "/api/v1/namespaces/default/pods/a", "patch", "pods,proxy"},
		{"PUT", "/api/v1/namespaces/default/pods/a", "update", "pods,proxy"},
		{"POST", "/apis/apps/v1/namespaces/default/deployments", "create", "pods,proxy"},
		{"GET", "/openapi/v3", "get", "pods,proxy"},
		{"GET", "/spec", "get", "proxy"},
		{"GET", "/", "get", "proxy"},
		{"OPTIONS", "/pods", "", "pods,proxy"},
		{"TRACE", "/", "", "proxy"},

		{"POST", "/podconfigd.v1alpha1.PodConfig/Watch", "get", "pods,proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/List", "get", "pods,proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/Status", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/History", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/Lookup", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/LookupStream", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/WatchContainers", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/ListContainers", "get", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/Resync", "create", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/Release", "create", "proxy"},
		{"POST", "/podconfigd.v1alpha1.PodConfig/New", "create", "proxy"},
		{"POST", "/v1alpha1.Pods/ListPods", "get", "pods,proxy"},
		{"POST", "/v1alpha1.Pods/GetPod", "get", "pods,proxy"},
		{"POST", "/v1alpha1.Pods/WatchPods", "get", "pods,proxy"},
		{"POST", "/grpc.health.v1.Health/Check", "get", "healthz,proxy"},
		{"POST", "/grpc.health.v1.Health/Watch", "get", "healthz,proxy"},
		{"POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "get", "pods,proxy"},
		{"POST", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "get", "pods,proxy"},

		// A path must not get the attributes of another one by the way it is written.
		{"GET", "/pods/../v1alpha1/status", "get", "proxy"},
		{"GET", "/pods//", "get", "proxy"},
		{"GET", "//metrics", "get", "proxy"},
		{"GET", "/healthz/./x", "get", "proxy"},
		{"GET", "pods", "get", "proxy"},
		{"GET", "", "get", "proxy"},
		{"POST", "/apis/authorization.k8s.io/../../v1alpha1/release", "create", "proxy"},
	} {
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			got := AttributesOf(row.method, row.path)
			if got.Verb != row.verb || strings.Join(got.Subresources, ",") != row.subresources {
				t.Errorf("%s %s: %+v, want %s of %s", row.method, row.path, got, row.verb, row.subresources)
			}
		})
	}
}

// Nothing that changes something has a rule of its own that is not nodes/proxy.
func TestWritesTakeProxy(t *testing.T) {
	for _, r := range rules {
		if r.verb != "" && r.verb != "get" && !slices.Equal(r.subresources, ofProxy) {
			t.Errorf("%+v", r)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if got := AttributesOf(method, "/v1alpha1/anything"); got.Verb == "get" || !slices.Equal(got.Subresources, ofProxy) {
			t.Errorf("%s: %+v", method, got)
		}
	}
}
