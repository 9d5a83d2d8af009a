package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Paths of the kubelet that podconfigd does not serve are answered with what it has instead.
func TestPathsOfTheKubelet(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	for path, want := range map[string]string{
		"/spec":                        "/spec is a path of the kubelet, and podconfigd is no kubelet: /api/v1/nodes has",
		"/spec/":                       "/api/v1/nodes has",
		"/stats":                       "/metrics has its own metrics",
		"/stats/summary":               "/stats is a path of the kubelet",
		"/metrics/cadvisor":            "/metrics/cadvisor is a path of the kubelet",
		"/metrics/resource":            "/metrics has its own metrics",
		"/metrics/probes":              "podconfigd runs no probes",
		"/runningpods/":                "/v1alpha1/runtime has",
		"/configz":                     "/v1alpha1/status has",
		"/exec/default/web/c":          "use crictl",
		"/containerLogs/default/web/c": "use crictl",
		"/checkpoint/default/web/c":    "use crictl",
		"/logs/":                       "writes its log to stderr",
		"/specs":                       "there is nothing at /specs",
	} {
		t.Run(path, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if method == http.MethodPost && path == "/specs" {
					continue // podconfigd is read-only
				}
				code, body := d.request(t, method, path)
				if code != http.StatusNotFound || !strings.Contains(body, want) || strings.Contains(body, `\n`) {
					t.Errorf("%s %s: %d %s", method, path, code, body)
				}
			}
		})
	}
}
