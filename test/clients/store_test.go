package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// VictoriaLogs has each change of the daemon, while the daemon, the exporter and the Collector are killed, and VictoriaLogs is
// restarted: the Collector keeps on disk what it has acknowledged. Then the queries of the page print what it shows.
func TestExportToAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the Collector and VictoriaLogs")
	}
	address, store := components.FreeAddress(t), components.FreeAddress(t)
	n := exportingNodes(t, 1, address)[0]
	queue := filepath.Join(n.dir, "queue")
	if err := os.Mkdir(queue, 0o700); err != nil {
		t.Fatal(err)
	}
	config := n.config(t, "otelcol-store.yaml", "127.0.0.1:4317", address, "127.0.0.1:9428", store, "/var/lib/otelcol", queue)
	collector := &restarted{path: installed(t, "otelcol"), args: []string{"--config", config}, signal: syscall.SIGKILL}
	// Killed, VictoriaLogs would lose what it has not written for up to 5 seconds.
	logs := &restarted{
		path: installed(t, "victoria-logs"), args: []string{"-storageDataPath", filepath.Join(n.dir, "logs"), "-httpListenAddr", store}, signal: syscall.SIGTERM,
	}
	collector.start(t)
	logs.start(t)
	startExporters(t, []*exportingNode{n})
	change(t, []*exportingNode{n}, 200, 10, collector, logs)
	n.awaitExported(t)
	testutil.Eventually(t, func() error {
		all, err := recordsOfStore(t.Context(), store)
		if err != nil {
			return err
		}
		got, doubles := n.only(all)
		if err := n.difference(t, got); err != nil {
			return err
		}
		t.Logf("%d records and %d doubles", len(got), doubles)
		return nil
	})

	for range 2 {
		before := n.revision(t)
		n.write(t, "web")
		testutil.Until(t, "the change is recorded", func() bool { return n.revision(t) > before })
	}
	n.awaitExported(t)
	page := strings.ReplaceAll(testutil.Pages(t)["docs/how-to/collect-from-a-fleet.md"], "127.0.0.1:9428", store)
	queries := regexp.MustCompile("(?s)\n\\$ (curl [^\n]*)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(queries) != 2 {
		t.Fatalf("the page has %d queries, want 2", len(queries))
	}
	for i, query := range queries {
		if i == 1 { // the daemon makes a new instance, which is a gap
			n.kill(t)
			if err := os.RemoveAll(filepath.Join(n.dir, "state")); err != nil {
				t.Fatal(err)
			}
			n.start(t)
		}
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(query[2]), "…", "[^\"]*") + "$")
		testutil.Eventually(t, func() error {
			got, err := exec.CommandContext(t.Context(), "bash", "-c", query[1]).Output()
			if err == nil && !want.Match(got) {
				err = fmt.Errorf("%s prints\n%s\nwant\n%s", query[1], got, query[2])
			}
			return err
		})
	}
}

// recordsOfStore returns the records in VictoriaLogs.
func recordsOfStore(ctx context.Context, store string) (all []exported, err error) {
	query := url.Values{"query": {"* | sort by (podconfigd.revision)"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+store+"/select/logsql/query?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(bufio.NewReader(resp.Body)); lines.More(); {
		var of map[string]string
		if err := lines.Decode(&of); err != nil {
			return nil, err
		}
		all = append(all, exported{of["event_name"], of["podconfigd.instance"], of["podconfigd.revision"], of["k8s.pod.uid"], of["_msg"]})
	}
	return all, nil
}
