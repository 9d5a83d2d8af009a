package sources_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

func TestVerdictsAreBounded(t *testing.T) {
	var verdicts, further sources.Verdicts
	if shown, omitted := verdicts.Shown(), verdicts.Omitted(); shown == nil || len(shown) > 0 || omitted != nil {
		t.Errorf("none: %v, %v", shown, omitted)
	}
	long := strings.Repeat("é", 1<<20)
	warnings := slices.Repeat([]string{long}, 100)
	for i := range 150 {
		verdicts.Add(v1alpha1.Manifest{Path: fmt.Sprint("r", i), State: v1alpha1.ManifestRejected, Message: long, Warnings: warnings})
	}
	for i := range 2500 {
		verdicts.Add(v1alpha1.Manifest{Path: fmt.Sprint("a", i), State: v1alpha1.ManifestAccepted})
		further.Add(v1alpha1.Manifest{Path: fmt.Sprint("r", 150+i), State: v1alpha1.ManifestRejected})
	}
	verdicts.Merge(&further)
	shown, omitted := verdicts.Shown(), verdicts.Omitted()
	if len(shown) != 1200 || shown[0].Path != "r0" || shown[150].Path != "a0" || shown[1199].Path != "r199" {
		t.Errorf("%d are shown, the first of %s, the last of %s", len(shown), shown[0].Path, shown[len(shown)-1].Path)
	}
	if len(omitted) != 2 || omitted[v1alpha1.ManifestAccepted] != 1500 || omitted[v1alpha1.ManifestRejected] != 2450 {
		t.Errorf("%v are not shown", omitted)
	}
	if m := shown[0]; len(m.Message) > 2100 || !strings.HasSuffix(m.Message, "é… (2097152 bytes)") || len(m.Warnings) != 21 || m.Warnings[20] != "and 80 more" || len(m.Warnings[0]) > 2100 {
		t.Errorf("message %.10s… of %d bytes, %d warnings", m.Message, len(m.Message), len(m.Warnings))
	}
	if len(warnings) != 100 || warnings[0] != long {
		t.Error("the warnings that were given have changed")
	}
}

// For any number of verdicts, the number of log lines is limited, and a line counts the
// others.
func TestReporterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		ctx := klog.NewContext(context.Background(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		r := sources.NewReporter()
		look := func(n int) {
			for i := range n {
				r.Report(ctx, v1alpha1.Manifest{Path: fmt.Sprint(i), State: v1alpha1.ManifestRejected, Reason: "Empty"}, nil)
			}
			r.Report(ctx, v1alpha1.Manifest{Path: "good", State: v1alpha1.ManifestAccepted}, nil) // at level 2
			r.Flush(ctx)
		}
		counts := func() (of []string) {
			for _, line := range lines {
				if _, count, ok := strings.Cut(line, `"count"=`); ok {
					of = append(of, count)
				}
			}
			return of
		}
		look(3)
		if len(lines) != 3 || !strings.Contains(lines[0], `"msg"="Manifest not usable" "state"="Rejected" "manifest"="0" "reason"="Empty"`) {
			t.Errorf("logged %q", lines)
		}
		look(20_000)
		if got := counts(); len(lines) != 201 || !slices.Equal(got, []string{"19803"}) {
			t.Errorf("%d lines and the counts %q", len(lines), got)
		}
		for range 6 * 60 { // an hour
			<-time.After(10 * time.Second)
			look(1000)
		}
		if n := len(lines); n > 201+6*60+60 {
			t.Errorf("%d lines in an hour", n)
		}
		if got := counts(); len(got) < 58 || got[1] != "5994" {
			t.Errorf("the counts are %q", got)
		}
		lines = nil
		<-time.After(time.Minute)
		look(0)
		r.Skip(7)
		<-time.After(time.Minute)
		r.Flush(ctx)
		if got := counts(); len(got) == 0 || got[len(got)-1] != "7" {
			t.Errorf("afterwards the counts are %q", got)
		}
	})
}

// The end of a fault or a warning is logged at the level of its begin. A verdict that was never bad is logged at level 2.
func TestReporterLogsTheEndOfAFault(t *testing.T) {
	accepted := v1alpha1.Manifest{Path: "a", State: v1alpha1.ManifestAccepted}
	warned := v1alpha1.Manifest{Path: "a", State: v1alpha1.ManifestAccepted, Warnings: []string{"w"}}
	of := func(state v1alpha1.ManifestState) *v1alpha1.Manifest {
		return &v1alpha1.Manifest{Path: "a", State: state}
	}
	for _, test := range []struct {
		was  *v1alpha1.Manifest
		is   v1alpha1.Manifest
		want string
	}{
		{nil, accepted, ""}, {of(""), accepted, ""}, {&accepted, accepted, ""},
		{of(v1alpha1.ManifestHeld), accepted, "Manifest accepted again"},
		{of(v1alpha1.ManifestShadowed), accepted, "Manifest accepted again"},
		{of(v1alpha1.ManifestRejected), accepted, "Manifest accepted again"},
		{of(v1alpha1.ManifestIgnored), accepted, "Manifest accepted again"},
		{of(v1alpha1.ManifestHeld), warned, "Manifest accepted with warnings"},
		{&warned, accepted, "Manifest accepted again"},
	} {
		var lines []string
		ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		sources.NewReporter().Report(ctx, test.is, test.was)
		if got := strings.Join(lines, "; "); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v after %v: logged %q, want %q", test.is, test.was, got, test.want)
		}
	}
}
