package sources_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

// degraded returns the gauge of a board.
func degraded(t *testing.T, reg prometheus.Gatherer) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "podconfigd_test_degraded" })
	return families[i].GetMetric()[0].GetGauge().GetValue()
}

// An error is logged once per cause, and its end once.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		ctx := klog.NewContext(context.Background(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		reg := prometheus.NewPedanticRegistry()
		board := sources.NewBoard(v1alpha1.SourceStatus{Name: "s", File: &v1alpha1.FileStatus{}}, reg, "test", "1 while degraded.")
		since := time.Now()
		for _, message := range []string{"refused", "refused", "reset", "refused"} {
			board.Failed(ctx, errors.New(message), "Reading failed")
			status := board.Status()
			if !status.Degraded || status.LastError != message || !status.DegradedSince.Equal(since) || degraded(t, reg) != 1 {
				t.Errorf("after %q: %+v", message, status)
			}
			<-time.After(time.Second)
		}
		board.Succeeded(ctx, "Reading succeeded again")
		board.Succeeded(ctx, "Reading succeeded again")
		board.Failed(ctx, errors.New("refused"), "Reading failed")
		want := []string{
			`"level"=0 "msg"="Reading succeeded again" "after"="4s" "unlogged"=1`,
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
		if status.Degraded || status.DegradedSince != nil || status.LastError != "" || status.LastChange == nil || degraded(t, reg) != 0 {
			t.Errorf("healthy again: %+v", status)
		}
		status.File.Path = "changed" // it is a copy
		if path := board.Status().File.Path; path != "" {
			t.Errorf("writing to the returned status changed the board to %q", path)
		}
	})
}

// A source that alternates between two states logs a bounded number of lines. Its status has
// each state, and the log ends with the last one.
func TestBoardLogsABoundedNumberOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := func(_, args string) { lines = append(lines, args) }
		ctx := klog.NewContext(context.Background(), funcr.New(log, funcr.Options{}))
		reg := prometheus.NewPedanticRegistry()
		board := sources.NewBoard(v1alpha1.SourceStatus{Name: "s"}, reg, "test", "1 while degraded.")
		const polls = 3600
		for i := range polls {
			failed, text := i%2 == 0, ""
			if failed {
				text = "refused " + string(rune('a'+i%3))
				board.Failed(ctx, errors.New(text), "Reading failed")
			} else {
				board.Succeeded(ctx, "Reading succeeded again")
			}
			if status := board.Status(); status.Degraded != failed || status.LastError != text || degraded(t, reg) != float64(1-i%2) {
				t.Fatalf("poll %d: %+v", i, status)
			}
			<-time.After(time.Second)
		}
		if n := len(lines); n < 20 || n > 100 {
			t.Errorf("%d lines in an hour", n)
		}
		unlogged := 0
		for _, line := range lines {
			if _, count, ok := strings.Cut(line, `"unlogged"=`); ok {
				n, err := strconv.Atoi(strings.Fields(count)[0])
				if err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				unlogged += n
			}
		}
		if total := unlogged + len(lines); total < polls-120 || total > polls {
			t.Errorf("%d changes are logged or counted, of %d", total, polls)
		}
		for range 120 {
			board.Failed(ctx, errors.New("refused for good"), "Reading failed")
			<-time.After(time.Second)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "refused for good") {
			t.Errorf("the last line is %s", last)
		}
		for range 120 {
			board.Succeeded(ctx, "Reading succeeded again")
			<-time.After(time.Second)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "Reading succeeded again") {
			t.Errorf("the last line is %s", last)
		}
	})
}
