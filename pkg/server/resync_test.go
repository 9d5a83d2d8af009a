package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

func TestResync(t *testing.T) {
	var asked []string
	opts := Options{Journal: journal.New(journal.Options{}), Gatherer: prometheus.NewRegistry()}
	opts.Resync = func(_ context.Context, namespace, name string) error {
		asked = append(asked, namespace+"/"+name)
		switch name {
		case "none":
			return fmt.Errorf("resyncing: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name))
		case "often":
			return apierrors.NewTooManyRequests("too often", 2)
		case "ended":
			return context.Canceled
		}
		return nil
	}
	handler := New(opts).handler(false)
	for _, c := range []struct {
		method, query string
		code          int
		message       string
	}{
		{"POST", "namespace=default&name=a", 200, `"status":"Success"`},
		{"POST", "namespace=default&name=none", 404, "not found"},
		{"POST", "namespace=default&name=often", 429, "too often"},
		{"POST", "namespace=default&name=ended", 503, "canceled"},
		{"POST", "namespace=default", 400, `parameter \"name\": required"`},
		{"POST", "namespace=Default&name=a", 400, `parameter \"namespace\"`},
		{"POST", "namespace=default&name=a&force=1", 400, `unknown parameter \"force\"`},
		{"GET", "namespace=default&name=a", 405, "POST it"},
	} {
		t.Run(c.method+" "+c.query, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(c.method, "/v1alpha1/resync?"+c.query, nil))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.message) {
				t.Errorf("%s %s: %d %s, want %d %s", c.method, c.query, w.Code, w.Body, c.code, c.message)
			}
			if after := w.Header().Get("Retry-After"); (after == "2") != (c.code == 429) {
				t.Errorf("%s %s: Retry-After %q", c.method, c.query, after)
			}
		})
	}
	if got := strings.Join(asked, " "); got != "default/a default/none default/often default/ended" {
		t.Errorf("asked for %s", got)
	}
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Resync = opts.Resync })
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for name, want := range map[string]codes.Code{
		"a": codes.OK, "none": codes.NotFound, "often": codes.ResourceExhausted, "ended": codes.Unavailable, "A": codes.InvalidArgument,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := api.Resync(t.Context(), &podconfigd.ResyncRequest{Namespace: "default", Name: name})
			if status.Code(err) != want || want == codes.InvalidArgument && !strings.HasPrefix(status.Convert(err).Message(), "name: ") {
				t.Errorf("gRPC: %s: %v, want %v", name, err, want)
			}
		})
	}
}
