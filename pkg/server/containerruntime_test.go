package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
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
