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
	// since returns what was released since the last call.
	since := func() string {
		defer func() { released = nil }()
		return strings.Join(released, " ")
	}
	handler := New(opts).handler(false)
	for _, c := range []struct {
		method, query string
		code          int
		message, want string
	}{
		{"POST", "source=file", 200, `"status":"Success"`, "file"},
		{"POST", "source=http", 404, "not found", "http"},
		{"POST", "source=api", 503, "canceled", "api"},
		{"POST", "source=file&removes=0", 409, "too many", "file 0"},
		{"POST", "source=file&removes=-1", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"-1\"`, ""},
		{"POST", "source=file&removes=-0", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"-0\"`, ""},
		{"POST", "source=file&removes=", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647, got \"\"`, ""},
		{"POST", "source=file&removes=99999999999", 400, `parameter \"removes\": expected a number of pods, 0 to 2147483647`, ""},
		{"POST", "", 400, `parameter \"source\": required`, ""},
		{"POST", "source=*", 400, `parameter \"source\": required`, ""},
		{"POST", "source=kubelet", 400, `parameter \"source\": unknown source \"kubelet\"`, ""},
		{"POST", "source=file&force=1", 400, `unknown parameter \"force\"`, ""},
		{"GET", "source=file", 405, "POST it", ""},
	} {
		t.Run(c.method+" "+c.query, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(c.method, "/v1alpha1/release?"+c.query, nil))
			if got := since(); w.Code != c.code || !strings.Contains(w.Body.String(), c.message) || got != c.want {
				t.Errorf("%d %s, released %q, want %d %s, %q", w.Code, w.Body, got, c.code, c.message, c.want)
			}
		})
	}
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Release = opts.Release })
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for name, c := range map[string]struct {
		source  string
		removes *int64
		code    codes.Code
		want    string
	}{
		"file":           {"file", nil, codes.OK, "file"},
		"http":           {"http", nil, codes.NotFound, "http"},
		"api":            {"api", nil, codes.Unavailable, "api"},
		"no source":      {"", nil, codes.InvalidArgument, ""},
		"unknown source": {"kubelet", nil, codes.InvalidArgument, ""},
		"five removes":   {"file", new(int64(5)), codes.FailedPrecondition, "file 5"},
		"negative":       {"file", new(int64(-1)), codes.InvalidArgument, ""},
		"smallest":       {"file", new(int64(math.MinInt64)), codes.InvalidArgument, ""},
		"too large":      {"file", new(int64(math.MaxInt32 + 1)), codes.InvalidArgument, ""},
	} {
		t.Run("gRPC "+name, func(t *testing.T) {
			_, err := api.Release(t.Context(), &podconfigd.ReleaseRequest{Source: c.source, Removes: c.removes})
			if got := since(); status.Code(err) != c.code || got != c.want {
				t.Errorf("%v, released %q, want %v, %q", err, got, c.code, c.want)
			}
			if message := status.Convert(err).Message(); c.code == codes.InvalidArgument && c.removes == nil && !strings.HasPrefix(message, "source: ") {
				t.Error(message)
			}
		})
	}
	w := httptest.NewRecorder()
	New(Options{Journal: opts.Journal, Gatherer: opts.Gatherer}).handler(false).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1alpha1/release?source=file", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("without the function: %d", w.Code)
	}
}
