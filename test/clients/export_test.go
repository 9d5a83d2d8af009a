package clients

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// podconfigctl export sends each change that the history of the daemon has to the Collector, in order, while all three are ended and
// started again. Each that comes twice has the same instance, revision and UID. EXPORT_CHANGES and EXPORT_KILLS, of each program,
// make it longer.
func TestExport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the Collector")
	}
	n := newNode(t, nil, true)
	n.args = append(n.args, "--journal-max-updates=10") // what is older comes from the history
	n.start(t)
	collected, state := filepath.Join(n.dir, "records"), filepath.Join(n.dir, "position")
	address := components.FreeAddress(t)
	config := n.config(t, "otelcol-file.yaml", "127.0.0.1:4317", address, "/var/log/podconfigd.json", collected)
	collector := &restarted{path: installed(t, "otelcol"), args: []string{"--config", config}, signal: syscall.SIGTERM}
	exporter := &restarted{path: ctl, args: []string{"export", "--socket", n.socket, "--otlp", "http://" + address, "--state-file", state}, signal: syscall.SIGKILL}
	collector.start(t)
	exporter.start(t)
	var first struct {
		Instance string
		Revision int64
	}
	testutil.Eventually(t, func() error {
		data, err := os.ReadFile(state)
		return errors.Join(err, json.Unmarshal(data, &first))
	})
	changes, kills := number(t, "EXPORT_CHANGES", 500), number(t, "EXPORT_KILLS", 5)
	every := max(changes/(3*kills), 1)
	for i := range changes {
		before := n.revision(t)
		n.write(t, fmt.Sprintf("pod-%d", i%7))
		if i%every == every-1 {
			switch i / every % 3 {
			case 0:
				exporter.restart(t)
			case 1:
				n.kill(t)
				n.start(t)
			case 2:
				collector.restart(t)
			}
		}
		testutil.Until(t, "the change is recorded", func() bool { return n.revision(t) > before })
	}
	exporter.stop(t)
	for i := range 30 { // more than the ring has
		before := n.revision(t)
		n.write(t, fmt.Sprintf("pod-%d", i%7))
		testutil.Until(t, "the change is recorded", func() bool { return n.revision(t) > before })
	}
	exporter.start(t)
	want := n.changes(t, first.Revision)
	testutil.Eventually(t, func() error {
		got, doubles := records(t, collected, first.Instance)
		if !slices.Equal(want, got) {
			return fmt.Errorf("the Collector has %d records, and %d doubles, want %d: %s", len(got), doubles, len(want), difference(want, got))
		}
		t.Logf("%d records, %d doubles, %v of the exporter's CPU time for each", len(got), doubles, exporter.stop(t)/time.Duration(len(got)))
		return nil
	})
}

// difference is where two lists differ.
func difference(want, got []string) string {
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			return fmt.Sprintf("number %d, want %s, got %s", i, want[i], got[min(i, len(got)):min(i+1, len(got))])
		}
	}
	return "more than expected"
}

// restarted is a program that is ended and started again.
type restarted struct {
	path   string
	args   []string
	signal os.Signal
	cmd    *exec.Cmd
	log    testutil.Buffer
	used   time.Duration
}

func (r *restarted) start(t *testing.T) {
	t.Helper()
	first := r.cmd == nil
	r.cmd = exec.CommandContext(context.Background(), r.path, r.args...) // stop ends it
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if first {
		t.Cleanup(func() {
			r.stop(t)
			if t.Failed() {
				t.Logf("%s said:\n%s", filepath.Base(r.path), &r.log)
			}
		})
	}
}

// stop ends the program, and returns the CPU time of all that ran.
func (r *restarted) stop(t *testing.T) time.Duration {
	t.Helper()
	if r.cmd.ProcessState == nil {
		if err := r.cmd.Process.Signal(r.signal); err != nil {
			t.Error(err)
		}
		_ = r.cmd.Wait() // it was ended
		r.used += r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
	}
	return r.used
}

func (r *restarted) restart(t *testing.T) {
	t.Helper()
	r.stop(t)
	r.start(t)
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil || n < 1 {
		t.Fatalf("%s: expected a number, at least 1", name)
	}
	return n
}

// revision returns the newest revision, as soon as the daemon answers.
func (n *node) revision(t *testing.T) (revision int64) {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := n.client.Status(t.Context())
		revision = status.Revision
		return err
	})
	return revision
}

// changes returns the changes in the history after a revision.
func (n *node) changes(t *testing.T, after int64) (changes []string) {
	t.Helper()
	for r, err := range n.client.History(t.Context(), client.HistoryOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Gap != "" {
			t.Errorf("the history has a gap: %s", r.Gap)
		}
		if r.Revision > after && r.UID != "" {
			changes = append(changes, strings.ToLower(string(r.Op))+" "+r.UID)
		}
	}
	return changes
}

// records returns the changes in the file of a Collector without the doubles, and how many doubles there are.
func records(t *testing.T, path, instance string) (changes []string, doubles int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for lines := bufio.NewReader(bytes.NewReader(data)); ; {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return changes, doubles // the last line can be incomplete
		}
		var line struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct {
						EventName  string
						Body       struct{ StringValue string }
						Attributes []struct {
							Key   string
							Value struct{ StringValue, IntValue string }
						}
					}
				}
			}
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, r := range line.ResourceLogs[0].ScopeLogs[0].LogRecords {
			attributes := make(map[string]string)
			for _, a := range r.Attributes {
				attributes[a.Key] = a.Value.StringValue + a.Value.IntValue
			}
			op, uid := strings.TrimPrefix(r.EventName, "podconfigd.pod."), attributes["k8s.pod.uid"]
			if attributes["podconfigd.instance"] != instance || op == r.EventName {
				t.Fatalf("unexpected: %s %v %s", r.EventName, attributes, r.Body.StringValue)
			}
			double := op + " " + uid + " " + attributes["podconfigd.revision"]
			switch {
			case attributes["podconfigd.revision"] == "": // the pods at the start
			case known[double]:
				doubles++
			default:
				known[double], changes = true, append(changes, op+" "+uid)
			}
		}
	}
}
