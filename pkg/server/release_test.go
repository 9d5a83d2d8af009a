package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
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

func TestRelease(t *testing.T) {
	var released []string
	opts := Options{Journal: journal.New(journal.Options{}), Gatherer: prometheus.NewRegistry()}
	opts.Release = func(_ context.Context, source string, most *int) error {
		released = append(released, source)
		if most != nil {
			released = append(released, fmt.Sprint(*most))
			return apierrors.NewConflict(schema.GroupResource{Resource: "sources"}, source, errors.New("too many"))
		}
		switch source {
		case "http":
			return apierrors.NewNotFound(schema.GroupResource{Resource: "sources"}, source)
		case "api":
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
		{"POST", "source=file", 200, `"status":"Success"`},
		{"POST", "source=http", 404, "not found"},
		{"POST", "source=api", 503, "canceled"},
		{"POST", "source=file&removes=0", 409, "too many"},
		{"POST", "source=file&removes=-1", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"-1\"`},
		{"POST", "source=file&removes=-0", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"-0\"`},
		{"POST", "source=file&removes=", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"\"`},
		{"POST", "source=file&removes=99999999999", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647`},
		{"POST", "", 400, `parameter \"source\": required`},
		{"POST", "source=*", 400, `parameter \"source\": required`},
		{"POST", "source=kubelet", 400, `parameter \"source\": unknown source \"kubelet\"`},
		{"POST", "source=file&force=1", 400, `unknown parameter \"force\"`},
		{"GET", "source=file", 405, "POST it"},
	} {
		t.Run(c.method+" "+c.query, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(c.method, "/v1alpha1/release?"+c.query, nil))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.message) {
				t.Errorf("%s %s: %d %s, want %d %s", c.method, c.query, w.Code, w.Body, c.code, c.message)
			}
		})
	}
	if got := strings.Join(released, " "); got != "file http api file 0" {
		t.Errorf("released %s", got)
	}
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Release = opts.Release })
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for source, want := range map[string]codes.Code{
		"file": codes.OK, "http": codes.NotFound, "api": codes.Unavailable, "": codes.InvalidArgument, "kubelet": codes.InvalidArgument,
	} {
		t.Run(source, func(t *testing.T) {
			_, err := api.Release(t.Context(), &podconfigd.ReleaseRequest{Source: source})
			if status.Code(err) != want || want == codes.InvalidArgument && !strings.HasPrefix(status.Convert(err).Message(), "source: ") {
				t.Errorf("gRPC: %s: %v, want %v", source, err, want)
			}
		})
	}
	released = nil
	for removes, want := range map[int64]codes.Code{
		5: codes.FailedPrecondition, -1: codes.InvalidArgument, math.MinInt64: codes.InvalidArgument, math.MaxInt32 + 1: codes.InvalidArgument,
	} {
		if _, err := api.Release(t.Context(), &podconfigd.ReleaseRequest{Source: "file", Removes: &removes}); status.Code(err) != want {
			t.Errorf("gRPC: at most %d: %v, want %v", removes, err, want)
		}
	}
	if got := strings.Join(released, " "); got != "file 5" {
		t.Errorf("gRPC: released %s", got)
	}
	w := httptest.NewRecorder()
	New(Options{Journal: opts.Journal, Gatherer: opts.Gatherer}).handler(false).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1alpha1/release?source=file", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("without the function: %d", w.Code)
	}
}
