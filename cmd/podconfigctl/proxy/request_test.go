package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/auth"
)

// uncleanTargets are targets that some server could read as another path.
var uncleanTargets = []string{
	"x:http://h/v1alpha1/release?source=file", "x:v1alpha1/release", "x:/v1alpha1/release", "http:v1alpha1/release",
	"http://127.0.0.1/v1alpha1/release?source=file", "https://127.0.0.1/v1alpha1/release", "http:///v1alpha1/release", "http://127.0.0.1",
	"*", "//v1alpha1/release", "//127.0.0.1/v1alpha1/release", "/a//b", "/pods//",
	"/..", "/.", "/./pods", "/pods/.", "/pods/..", "/../pods", "/a/../../../api/v1/secrets", "/v1alpha1/x/../release",
	"/%2e%2e/pods", "/%2E%2e/pods", "/.%2e/pods", "/%2e/pods", "/pods/%2e%2e",
	"/%252e%252e/pods", "/%25252e%25252e/pods", "/%252fpods", "/%",
	"/v1alpha1%2frelease", "/v1alpha1%2Frelease", "/..%2f..%2fsecrets", "/%2fpods",
	`/..\..\secrets`, "/..%5c..%5csecrets", `/a\b`, `\pods`,
	"/..;/secrets", "/..;a=b/secrets", "/pods;a", "/pods%3b", "/.;/pods",
	"/%00", "/pods%00", "/%0d%0aX:y", "/%7f", "/%09", "/a%20b", "/%c0%ae%c0%ae/pods", "/%c0%af", "/%ef%bc%8e%ef%bc%8e/pods", "/a%ff",
	"/a%23b", "/a#b", "/a%3fb", "/%7b%7d", "/pods?a#b", "/pods?%", "/pods?a;b", "/pods?a=%zz",
}

// targetsOfHTTP2 are further ones, which HTTP/1.1 can't send.
var targetsOfHTTP2 = []string{"pods", "/pods HTTP/1.1", "/pods?x HTTP/1.1", "/pods?x HTTP/1.1\r\nX: y", "?x", "/a\x7fb"}

// No target that is unclean reaches the daemon or the gateway, by any method.
func TestUncleanTargets(t *testing.T) {
	g, address := proxiedGateway(t)
	d := newDaemon(t)
	local, _ := proxied(t, d.socket)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, target := range uncleanTargets {
			t.Run(fmt.Sprintf("HTTP 1 %s %s", method, target), func(t *testing.T) {
				for _, address := range []string{address, local} {
					if code, answer := sendHTTP1(t, address, method, target, ""); code != http.StatusBadRequest {
						t.Errorf("%d %s", code, answer)
					}
				}
			})
		}
		for _, target := range append(uncleanTargets, targetsOfHTTP2...) {
			t.Run(fmt.Sprintf("HTTP 2 %s %s", method, target), func(t *testing.T) {
				for _, fields := range [][]string{nil, {"content-type", "application/grpc", "te", "trailers"}} {
					code, answer, trailer := sendHTTP2(t, address, method, target, "", fields...)
					if code != "400" && code != "reset" && trailer["grpc-status"] != "3" {
						t.Errorf("%s: %s %s %v", fields, code, answer, trailer)
					}
				}
			})
		}
		for _, r := range g.take() {
			t.Errorf("%s %s arrived", r.method, r.target)
		}
	}
	if n := d.writes.Load(); n != 0 {
		t.Errorf("the daemon was asked to change something %d times", n)
	}
}

// A refusal is a status, and says what to do.
func TestRefusalsOfTargets(t *testing.T) {
	_, address := proxiedGateway(t)
	for target, want := range map[string]string{
		"x:http://h/pods": "the target of the request is no path: send a path that begins with /, without a scheme and a host",
		"/a/../pods":      "the path of the request has an empty segment, \".\" or \"..\": send the path that is meant",
		"/a%2fpods":       "the path of the request has '%': only letters, digits, / and -._~!$&'()*+,:=@ are allowed: send the path without escapes",
		"/%252e%252e":     "the path of the request has '%': only letters, digits, / and -._~!$&'()*+,:=@ are allowed: send the path without escapes",
		`/a\pods`:         `the path of the request has '\\': only letters, digits, / and -._~!$&'()*+,:=@ are allowed: send the path without escapes`,
		"/pods?a=%zz":     `the query of the request can't be parsed: invalid URL escape "%zz": send NAME=VALUE, joined by &`,
		"/pods?a#b":       "the query of the request has '#': escape it with %",
	} {
		t.Run(target, func(t *testing.T) {
			code, answer := sendHTTP1(t, address, http.MethodGet, target, "")
			var refusal metav1.Status
			if err := json.Unmarshal([]byte(answer), &refusal); err != nil || code != http.StatusBadRequest || refusal.Code != http.StatusBadRequest ||
				refusal.Kind != "Status" || refusal.Reason != metav1.StatusReasonBadRequest || refusal.Message != want {
				t.Errorf("%s: %d %s\nwant %s", target, code, answer, want)
			}
		})
	}
}

// A clean target arrives below the path of the address, as it was checked.
func TestCleanTargets(t *testing.T) {
	g, address := proxiedGateway(t)
	for target, want := range map[string]string{
		"/":      "/",
		"/pods":  "/pods",
		"/pods/": "/pods/",
		"/api/v1/namespaces/default/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&watch=1": "/api/v1/namespaces/default/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&watch=1",
		"/v1alpha1/history?since=../..":      "/v1alpha1/history?since=../..",
		"/api/v1/namespaces/a/pods/b.c..d":   "/api/v1/namespaces/a/pods/b.c..d",
		"/api/v1/namespaces/a/pods/...":      "/api/v1/namespaces/a/pods/...",
		"/p%6fds":                            "/pods",
		"/-._~!$&'()*+,:=@":                  "/-._~%21$&%27%28%29%2A+,:=@",
		"/readyz/sources%2Dready?verbose":    "/readyz/sources-ready?verbose",
		"/openapi/v3/api/v1?hash=ABC%2F1%3D": "/openapi/v3/api/v1?hash=ABC%2F1%3D",
	} {
		t.Run(target, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
				code, answer := sendHTTP1(t, address, method, target, "")
				seen := g.take()
				if code != http.StatusOK || len(seen) != 1 || seen[0].method != method || seen[0].target != prefix+want {
					t.Errorf("HTTP/1.1 %s %s: %d %s %v", method, target, code, answer, seen)
				}
				status, answer, _ := sendHTTP2(t, address, method, target, "")
				seen = g.take()
				if status != "200" || len(seen) != 1 || seen[0].method != method || seen[0].target != prefix+want {
					t.Errorf("HTTP/2 %s %s: %s %s %v", method, target, status, answer, seen)
				}
			}
		})
	}
}

// Other methods than those that read are refused, and so are posts that are no calls that read.
func TestMethods(t *testing.T) {
	g, address := proxiedGateway(t)
	const bodies = `{"kind":"Pod"}`
	for _, r := range []struct {
		method, target, body string
		want                 int
	}{
		{"POST", "/v1alpha1/release?source=file", "", 405},
		{"POST", "/v1alpha1/resync?namespace=a&name=b", "", 405},
		{"POST", "/pods", "", 405},
		{"POST", "/exec/default/a/c?command=ls", "", 405},
		{"POST", "/podconfigd.v1alpha1.PodConfig/List", "", 405}, // no call
		{"DELETE", "/api/v1/namespaces/kube-system/pods/x", "", 405},
		{"DELETE", "/v1alpha1/release", "", 405},
		{"PUT", "/pods", bodies, 405},
		{"PATCH", "/api/v1/pods/a", bodies, 405},
		{"TRACE", "/pods", "", 405},
		{"CONNECT", "/v1alpha1/release", "", 405},
		{"CONNECT", "127.0.0.1:1", "", 405},
		{"PROPFIND", "/pods", "", 405},
		{"get", "/pods", "", 405},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", bodies, 405},
		{"GET", "/pods", "body", 400},
		{"HEAD", "/pods", "body", 400},
		{"OPTIONS", "/pods", "body", 400},
	} {
		t.Run(r.method+" "+r.target, func(t *testing.T) {
			if code, answer := sendHTTP1(t, address, r.method, r.target, r.body); code != r.want {
				t.Errorf("HTTP/1.1 %s %s: %d %s, want %d", r.method, r.target, code, answer, r.want)
			}
			if r.method != http.MethodConnect {
				if code, answer, _ := sendHTTP2(t, address, r.method, r.target, r.body); code != strconv.Itoa(r.want) {
					t.Errorf("HTTP/2 %s %s: %s %s, want %d", r.method, r.target, code, answer, r.want)
				}
			}
			for _, seen := range g.take() {
				t.Errorf("%s %s arrived as %s %s", r.method, r.target, seen.method, seen.target)
			}
		})
	}
}

// Exactly the calls that read pass. A new call, or service, of the daemon must be added to
// readingCalls, or to writes here.
func TestAllCallsAreKnown(t *testing.T) {
	writes := map[string]bool{"/podconfigd.v1alpha1.PodConfig/Resync": true, "/podconfigd.v1alpha1.PodConfig/Release": true}
	g, address := proxiedGateway(t)
	known := make(map[string]bool)
	for _, call := range callsOf(t, newDaemon(t)) {
		known[call] = true
		if readingCalls[call] == writes[call] {
			t.Errorf("%s: add it to readingCalls if it only reads, and otherwise here", call)
		}
		if reads := auth.AttributesOf(http.MethodPost, call).Verb == "get"; reads != readingCalls[call] {
			t.Errorf("%s: the https addresses say that it reads: %v", call, reads)
		}
	}
	for call := range readingCalls {
		if !known[call] {
			t.Errorf("the daemon has no call %s", call)
		}
	}
	for _, call := range []string{"/podconfigd.v1alpha1.PodConfig/New", "/podconfigd.v1alpha1.PodConfig/List/", "/v1alpha1.Pods", "/new.Service/List", "/podconfigd.v1alpha1.PodConfig/list"} {
		known[call] = true
	}
	for call := range known {
		_, answer, trailer := sendHTTP2(t, address, http.MethodPost, call+"?x=/podconfigd.v1alpha1.PodConfig/Release", "", "content-type", "application/grpc", "te", "trailers", "grpc-timeout", "9S", "impersonate-user", "a")
		seen := g.take()
		switch {
		case !readingCalls[call]:
			if len(seen) != 0 || trailer["grpc-status"] != "7" || !strings.HasPrefix(trailer["grpc-message"], "podconfigctl%20proxy%20only%20reads:%20") {
				t.Errorf("%s: %s %v, arrived %v", call, answer, trailer, seen)
			}
		case len(seen) != 1 || seen[0].target != prefix+call || seen[0].header.Get("Te") != "trailers" || seen[0].header.Get("Grpc-Timeout") != "9S" || seen[0].header.Get("Impersonate-User") != "":
			t.Errorf("%s: %s %v, arrived %v", call, answer, trailer, seen)
		}
	}
}

// callsOf returns the names of all calls that a daemon has.
func callsOf(t *testing.T, d *daemon) (calls []string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+d.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range answer.GetListServicesResponse().GetService() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.GetName()))
		if err != nil {
			t.Fatal(err)
		}
		methods := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			calls = append(calls, "/"+service.GetName()+"/"+string(methods.Get(i).Name()))
		}
	}
	if len(calls) < 14 {
		t.Errorf("the daemon has only the calls %v", calls)
	}
	return calls
}
