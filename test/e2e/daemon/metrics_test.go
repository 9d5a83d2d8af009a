package daemon

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/reference/metrics.md")

// withAllMetrics starts a daemon with all sources, a state directory and a runtime. The metrics
// of the apiserver and of the runtime are there also while nothing answers.
func withAllMetrics(t *testing.T, args ...string) *e2e.Daemon {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(podtest.List(podtest.Item("web", "i"))))
	}))
	t.Cleanup(web.Close)
	dir := testutil.ShortDir(t)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	components.WriteKubeconfig(t, kubeconfig, components.NewKubeconfig("http://127.0.0.1:1", nil))
	d := e2e.Start(t, dir, append([]string{
		"--manifest-url", web.URL, "--kubeconfig", kubeconfig, "--state-dir", filepath.Join(dir, "state"),
		"--container-runtime-endpoint", "unix://" + filepath.Join(dir, "cri"), "--removal-brake=50%", "--create-mirror-pods", "--owners",
	}, args...)...)
	d.Mkdir(t)
	d.Put(t, "a", "i")
	s := d.Watch(t, client.Options{})
	for seen := 0; seen < 2; {
		select {
		case u := <-s.Updates:
			seen += len(u.Pods)
		case <-time.After(testutil.Patience):
			t.Fatalf("%d pods after %v", seen, testutil.Patience)
		}
	}
	go func() { // a subscriber that reads
		for {
			select {
			case <-s.Updates:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return d
}

func metrics(t *testing.T, d *e2e.Daemon) string {
	t.Helper()
	_, _, body := d.Ask(t, "/metrics")
	return body
}

// The names, types and texts of all metrics are those that Prometheus and Kubernetes expect, and
// the reference has each.
func TestMetrics(t *testing.T) {
	t.Parallel()
	d := withAllMetrics(t)
	testutil.Until(t, "each source has failed or delivered", func() bool {
		body := metrics(t, d)
		return strings.Contains(body, `podconfigd_source_errors_total{reason="connection",source="api"}`)
	})
	body := metrics(t, d)
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}

	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if strings.HasPrefix(name, "podconfigd_") {
			table.WriteString(row(families[name]))
		}
	}
	compareTable(t, filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"), table.String())
}

// row is the row of a metric in the reference.
func row(family *dto.MetricFamily) string {
	labels := make(map[string]bool)
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			labels["`"+l.GetName()+"`"] = true
		}
	}
	return fmt.Sprintf("| %#q | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()),
		strings.Join(slices.Sorted(maps.Keys(labels)), ", "), family.GetHelp())
}

// compareTable compares the table in a page with what it must be.
func compareTable(t *testing.T, page, want string) {
	t.Helper()
	const begin, end = "<!-- begin: go test ./test/e2e/daemon -run '^TestMetrics$' -update -->\n\n", "\n<!-- end -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, there := strings.Cut(string(data), begin)
	got, after, ends := strings.Cut(rest, end)
	switch {
	case !there || !ends:
		t.Fatalf("%s: no table between %q and %q", page, begin, end)
	case got == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has\n%s\nbut the metrics are\n%s\nrun: go test ./test/e2e/daemon -run '^TestMetrics$' -update", page, got, want)
	}
}
