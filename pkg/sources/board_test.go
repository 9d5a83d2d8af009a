package sources_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
)

var (
	_ sources.Source = (*apiserver.Source)(nil)
	_ sources.Source = (*file.Source)(nil)
	_ sources.Source = (*http.Source)(nil)
)

// An error is logged once per cause, and its end once.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		ctx := klog.NewContext(context.Background(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "degraded", Help: "1 while degraded."})
		board := sources.NewBoard(v1alpha1.SourceStatus{Name: "s", File: &v1alpha1.FileStatus{}}, gauge)
		since := time.Now()
		for _, message := range []string{"refused", "refused", "reset", "refused"} {
			board.Failed(ctx, errors.New(message), "Reading failed")
			status := board.Status()
			if !status.Degraded || status.LastError != message || !status.DegradedSince.Equal(since) || testutil.ToFloat64(gauge) != 1 {
				t.Errorf("after %q: %+v", message, status)
			}
			<-time.After(time.Second)
		}
		board.Succeeded(ctx, "Reading succeeded again")
		board.Succeeded(ctx, "Reading succeeded again")
		board.Failed(ctx, errors.New("refused"), "Reading failed")
		want := []string{
			`"level"=0 "msg"="Reading succeeded again" "after"="4s"`,
			`"msg"="Reading failed" "error"="refused"`,
			`"msg"="Reading failed" "error"="reset"`,
			`"msg"="Reading failed" "error"="refused"`,
			`"msg"="Reading failed" "error"="refused"`,
		}
		slices.Sort(lines)
		slices.Sort(want)
		if !slices.Equal(lines, want) {
			t.Errorf("logged %q, want %q", lines, want)
		}
		board.Succeeded(ctx, "")
		board.Sent()
		status := board.Status()
		if status.Degraded || status.DegradedSince != nil || status.LastError != "" || status.LastChange == nil || testutil.ToFloat64(gauge) != 0 {
			t.Errorf("healthy again: %+v", status)
		}
		status.File.Path = "changed" // it is a copy
		if path := board.Status().File.Path; path != "" {
			t.Errorf("writing to the returned status changed the board to %q", path)
		}
	})
}
