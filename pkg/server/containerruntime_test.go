package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

func TestRuntimePods(t *testing.T) {
	opts := Options{Journal: journal.New(journal.Options{}), Gatherer: prometheus.NewRegistry()}
	get := func(code int, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		New(opts).handler(false).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1alpha1/runtime", nil))
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, code, want)
		}
	}
	get(404, "--container-runtime-endpoint")
	opts.Runtime = func() v1alpha1.RuntimePods {
		return v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{UID: "a", Ready: 1}}}
	}
	get(200, `{"pods":[{"uid":"a","namespace":"","name":"","ready":1,"restarts":0,"containers":null}]}`)
}

// Without a runtime, nobody is told to try a lookup again that has no other answer.
func TestLookupsWithoutARuntime(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Lookup = lookup.New(lookup.Options{Journal: o.Journal}) })
	d.add("a", 1)
	const why = "there is no container runtime: name one with --container-runtime-endpoint"
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for query, request := range map[string]*podconfigd.LookupRequest{
		"containerID=c1": {Target: &podconfigd.LookupRequest_ContainerId{ContainerId: "c1"}},
		"cgroup=/kubepods/podother/" + strings.Repeat("a", 64): {
			Target: &podconfigd.LookupRequest_Cgroup{Cgroup: "/kubepods/podother/" + strings.Repeat("a", 64)},
		},
	} {
		t.Run(query, func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/lookup?"+query)
			if code != http.StatusNotImplemented || !strings.Contains(body, why) || !strings.Contains(body, `"reason":"NotImplemented"`) {
				t.Errorf("%d %s", code, body)
			}
			if _, err := api.Lookup(t.Context(), request); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), why) {
				t.Error(err)
			}
			stream, err := api.LookupStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&podconfigd.LookupStreamRequest{Query: request}); err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if err != nil || codes.Code(answer.GetError().GetCode()) != codes.Unimplemented {
				t.Errorf("%v, %v", answer, err)
			}
		})
	}
	if code, body := d.get(t, "/v1alpha1/lookup?podUID=a"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}
