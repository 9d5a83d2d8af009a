package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// podconfigctl export sends each change that the histories of the daemons have to the Collector, in the order of each node, while all
// are ended and started again, and the Collector is away for the last part. Each that comes twice has the same instance, revision and
// UID. EXPORT_NODES, EXPORT_CHANGES of all nodes (and as many again while the Collector is away), and EXPORT_KILLS of each kind of
// program make it longer.
func TestExport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the Collector")
	}
	address := components.FreeAddress(t)
	nodes := exportingNodes(t, number(t, "EXPORT_NODES", 2), address)
	collected := filepath.Join(nodes[0].dir, "records")
	config := nodes[0].config(t, "otelcol-file.yaml", "127.0.0.1:4317", address, "/var/log/podconfigd.json", collected)
	collector := &restarted{path: installed(t, "otelcol"), args: []string{"--config", config}, signal: syscall.SIGTERM}
	collector.start(t)
	startExporters(t, nodes)
	rounds := number(t, "EXPORT_CHANGES", 400) / len(nodes)
	change(t, nodes, rounds, number(t, "EXPORT_KILLS", 5), collector)

	for _, n := range nodes {
		n.exporter.stop(t)
	}
	collector.stop(t)
	for _, n := range nodes {
		n.kill(t)
		for i := range 7 { // in one update
			n.write(t, fmt.Sprintf("pod-%d", i))
		}
		n.start(t)
	}
	change(t, nodes, 30, 0) // more than the ring has
	for _, n := range nodes {
		n.exporter.start(t)
	}
	away := time.Now()
	change(t, nodes, rounds, 0)
	t.Logf("the Collector was away for %v while the nodes changed", time.Since(away).Round(time.Second))
	collector.start(t)

	for _, n := range nodes {
		n.awaitExported(t)
	}
	collector.stop(t) // it writes the file
	all, total, doubles := recordsOfFile(t, collected), 0, 0
	var used time.Duration
	var memory int64
	for _, n := range nodes {
		got, again := n.only(all)
		if err := n.difference(t, got); err != nil {
			t.Error(err)
		}
		total, doubles = total+len(got), doubles+again
		used += n.exporter.stop(t)
		memory = max(memory, n.exporter.memory)
	}
	t.Logf("%d records and %d doubles; %v of the exporters' CPU time for each, and at most %d KiB of memory", total, doubles, used/time.Duration(total), memory)
}

// exportingNode is a node with podconfigctl export.
type exportingNode struct {
	*node
	exporter *restarted
	state    string
	// first is the first position: that after the pods at the start.
	first position
}

// position is that of the state file.
type position struct {
	Instance string
	Revision int64
}

// exportingNodes starts daemons. Their exporters send to a Collector.
func exportingNodes(t *testing.T, count int, collector string) (nodes []*exportingNode) {
	t.Helper()
	for i := range count {
		n := &exportingNode{node: newNode(t, nil, true)}
		// What is older than in so short a ring comes from the history.
		n.args = append(n.args, "--journal-max-updates=10", fmt.Sprintf("--hostname-override=node%d", i+1))
		n.state = filepath.Join(n.dir, "position")
		n.exporter = &restarted{path: ctl, args: []string{"export", "--socket", n.socket, "--otlp", "http://" + collector, "--state-file", n.state}, signal: syscall.SIGKILL}
		n.start(t)
		nodes = append(nodes, n)
	}
	return nodes
}

// startExporters starts them as soon as the daemons have the first set, and waits until it is acknowledged. The later sets have one pod
// each. Their records have the same revisions from the stream and from the history.
func startExporters(t *testing.T, nodes []*exportingNode) {
	t.Helper()
	for _, n := range nodes {
		testutil.Eventually(t, func() error {
			list, err := n.client.Pods(t.Context())
			if err == nil && len(list.Items) == 0 {
				err = errors.New("there are no pods")
			}
			return err
		})
		n.exporter.start(t)
	}
	for _, n := range nodes {
		testutil.Eventually(t, func() (err error) {
			n.first, err = n.reached()
			return err
		})
	}
}

// reached is the position that is stored.
func (n *exportingNode) reached() (p position, err error) {
	data, err := os.ReadFile(n.state)
	err = errors.Join(err, json.Unmarshal(data, &p))
	return p, err
}

// awaitExported waits until all changes are acknowledged.
func (n *exportingNode) awaitExported(t *testing.T) {
	t.Helper()
	newest := n.revision(t)
	testutil.Eventually(t, func() error {
		p, err := n.reached()
		if err == nil && p.Revision < newest {
			err = fmt.Errorf("%s: %+v is exported, want %d", n.dir, p, newest)
		}
		return err
	})
}

// change changes a pod of each node in each round. Meanwhile, it kills that number of daemons, of exporters, and of each of the other
// programs.
func change(t *testing.T, nodes []*exportingNode, rounds, kills int, others ...*restarted) {
	t.Helper()
	kinds := 2 + len(others)
	kills *= kinds
	before := make([]int64, len(nodes))
	for i := range rounds {
		for k, n := range nodes {
			before[k] = n.revision(t)
			n.write(t, fmt.Sprintf("pod-%d", i%7))
		}
		for k := kills * i / rounds; k < kills*(i+1)/rounds; k++ {
			switch n := nodes[k/kinds%len(nodes)]; k % kinds {
			case 0:
				n.exporter.restart(t)
			case 1:
				n.kill(t)
				n.start(t)
			default:
				others[k%kinds-2].restart(t)
			}
		}
		for k, n := range nodes {
			testutil.Until(t, "the change is recorded", func() bool { return n.revision(t) > before[k] })
		}
	}
}

// restarted is a program that is ended and started again.
type restarted struct {
	path   string
	args   []string
	signal os.Signal
	cmd    *exec.Cmd
	log    testutil.Buffer
	// used is the CPU time, and memory the largest number of KiB.
	used   time.Duration
	memory int64
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
		r.memory = max(r.memory, r.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
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
