package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// monitoring is the path of a file in deploy/monitoring.
func monitoring(t *testing.T, name string) string {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "deploy", "monitoring", name)
}

// promtool checks the alerts, and runs their unit tests.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = filepath.Dir(monitoring(t, "rules.yaml"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// promtool checks the rule for the series of GPUs, runs its unit tests, and checks the job on the page.
func TestDeviceRules(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(testutil.Pages(t)["docs/how-to/device-metrics.md"], "<!-- run by TestDeviceRules -->\n```yaml\n")
	config, _, _ := strings.Cut(after, "```")
	dir := testutil.ShortDir(t)
	rules := filepath.Join(dir, "rules.yaml")
	config = strings.ReplaceAll(config, "/etc/prometheus/podconfigd-devices.yaml", monitoring(t, "devices.yaml"))
	for _, path := range []string{"/var/run/secrets/kubernetes.io/serviceaccount/token", "/etc/prometheus/podconfigd-ca.crt"} {
		config = strings.ReplaceAll(config, path, rules) // promtool wants them to exist
	}
	if err := os.WriteFile(rules, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "devices.yaml"}, {"test", "rules", "devices_test.yaml"}, {"check", "config", rules}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = filepath.Dir(monitoring(t, "devices.yaml"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// prometheusServer is a running Prometheus.
type prometheusServer struct{ address string }

// startPrometheus starts a Prometheus that scrapes an address, and has the alerts.
func startPrometheus(t *testing.T, target string) *prometheusServer {
	t.Helper()
	dir := testutil.ShortDir(t)
	config := fmt.Sprintf(`
global: {scrape_interval: 250ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
- job_name: podconfigd
  static_configs: [{targets: [%q]}]
`, monitoring(t, "rules.yaml"), target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{address: components.FreeAddress(t)}
	log := new(testutil.Buffer)
	cmd := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log)
		}
	})
	return p
}

// get returns the data of an answer of the API.
func (p *prometheusServer) get(path string, query url.Values, data any) error {
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := web.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Error string
		Data  json.RawMessage
	}{}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error != "" {
		return fmt.Errorf("%s %v: %s", path, query, body)
	}
	return json.Unmarshal(answer.Data, data)
}

// query returns the number of series with a value that a query returns.
func (p *prometheusServer) query(expr string) (series int, err error) {
	var data struct{ Result []struct{ Value []any } }
	err = p.get("query", url.Values{"query": {expr}}, &data)
	for _, result := range data.Result {
		if len(result.Value) == 2 && result.Value[1] != "NaN" { // a time and a number
			series++
		}
	}
	return series, err
}

// dashboard is the part of a dashboard with its queries.
type dashboard struct {
	Panels []struct {
		Title, Type string
		Targets     []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

// Each query of the dashboard, and of its variables, returns data of a real daemon. The alerts can
// be evaluated, and one for a rejected manifest is pending.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	address := components.FreeAddress(t)
	d := withAllMetrics(t, "--metrics-bind-address", address)
	d.PutFile(t, "broken", e2e.Broken)
	p := startPrometheus(t, address)

	data, err := os.ReadFile(monitoring(t, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board dashboard
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$instance", ".*", "$source", ".*", "$__rate_interval", "10s")
	queries := 0
	expect := func(title, expr string) {
		queries++
		testutil.Eventually(t, func() error {
			d.Put(t, "a", fmt.Sprint("image", time.Now().UnixNano())) // an update, and work for each part
			n, err := p.query(variables.Replace(expr))
			if err == nil && n == 0 {
				err = fmt.Errorf("panel %q: %s returns nothing", title, expr)
			}
			return err
		})
	}
	for _, panel := range board.Panels {
		if (panel.Type == "row") != (len(panel.Targets) == 0) {
			t.Errorf("panel %q of type %s has %d queries", panel.Title, panel.Type, len(panel.Targets))
		}
		for _, target := range panel.Targets {
			expect(panel.Title, target.Expr)
		}
	}
	for _, variable := range board.Templating.List {
		if series, is := strings.CutPrefix(variable.Definition, "label_values("); is {
			metric, label, _ := strings.Cut(strings.TrimSuffix(series, ")"), ", ")
			expect("variable "+variable.Name, fmt.Sprintf("count by (%s) (%s)", label, metric))
		}
	}
	if queries < 40 {
		t.Errorf("only %d queries", queries)
	}
	p.alerts(t)
}

// alerts checks that each part of each alert has data, and that the right ones are pending.
func (p *prometheusServer) alerts(t *testing.T) {
	t.Helper()
	pending := map[string]bool{"PodconfigdManifestRejected": true, "PodconfigdSourceDegraded": true, "PodconfigdNotReady": true, "PodconfigdEventsNotWritten": true}
	testutil.Eventually(t, func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, Query, LastError string }
			}
		}
		if err := p.get("rules", nil, &data); err != nil {
			return err
		}
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return fmt.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
				}
				if is := rule.State == "pending"; is != pending[rule.Name] {
					return fmt.Errorf("alert %s is %s: %s", rule.Name, rule.State, rule.Query)
				}
			}
		}
		if len(data.Groups) != 1 {
			return fmt.Errorf("%d groups", len(data.Groups))
		}
		return nil
	})
}
