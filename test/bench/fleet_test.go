package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	fleetOut   = flag.String("fleet", "", "file for the rows of BenchmarkFleet, as JSON")
	fleetNodes = flag.Int("fleet-nodes", 20, "nodes of BenchmarkFleet")
)

const (
	fleetPods                 = 30
	fleetChangesOfNode        = 2.5 // a second
	fleetChanging, fleetQuiet = 20 * time.Second, 2 * time.Second
)

// fleetRow is what was measured with a number of agents on each node.
type fleetRow struct {
	// Agents is the number on each node; Behind says whether they ask podconfigd and not the apiserver.
	Agents int  `json:"agents"`
	Behind bool `json:"behind"`
	// While pods change. CPU is in ms for each second, memory anonymous and in MB. Those of a node are of its agents and podconfigd.
	Watches           float64 `json:"watches"`
	ServerCPU         float64 `json:"serverCPU"`
	ServerBytes       float64 `json:"serverKB"`
	ServerMemory      float64 `json:"serverMB"`
	NodeCPU           float64 `json:"nodeCPU"`
	NodeMemory        float64 `json:"nodeMB"`
	DelayP50, P99     float64 // ms, from before the write to the agent
	Restart, Upgraded fleetRestart
}

// fleetRestart is what the apiserver sees after a restart: of itself, or of every podconfigd.
type fleetRestart struct {
	// Right is the time in seconds until each agent is right, Lists the requests for all pods of a node, and Bytes are in kB.
	Right, Lists, Bytes, CPU float64
}

// BenchmarkFleet measures what the agents of the nodes cost the apiserver and the nodes if they watch the apiserver themselves, and if
// they watch podconfigd, in turns: while 2.5 pods of each node change a second, after the apiserver was killed, and after each
// podconfigd was replaced. All agents of a node are one process, since the memory of this machine must do for 200. Each has its own
// connection.
func BenchmarkFleet(b *testing.B) {
	if *fleetOut == "" {
		b.Skip("make fleet runs it")
	}
	f := newFleet(b)
	var rows []fleetRow
	for _, agents := range []int{0, 1, 2, 5, 10} {
		for _, behind := range []bool{false, true} {
			if agents == 0 && behind {
				continue
			}
			b.Run(fmt.Sprintf("agents=%d/behind=%t", agents, behind), func(b *testing.B) {
				for b.Loop() {
					rows = append(rows, f.measure(b, agents, behind))
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(*fleetOut, append(text, '\n'), 0o644); err != nil {
		b.Fatal(err)
	}
}

// fleet is a cluster of nodes with 30 pods each.
type fleet struct {
	*components.Cluster
	kubeconfig string
	generation int
}

func newFleet(b *testing.B) *fleet {
	b.Helper()
	f := &fleet{Cluster: components.Start(b)}
	f.kubeconfig = f.Kubeconfig(b, filepath.Join(testutil.ShortDir(b), "kubeconfig"), "admin", "system:masters")
	parallel(b, *fleetNodes, func(ctx context.Context, i int) error {
		_, err := f.Client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%d", i)}}, metav1.CreateOptions{})
		return err
	})
	parallel(b, *fleetNodes*fleetPods, func(ctx context.Context, i int) error {
		selector, template := templateOf(fmt.Sprintf("pod%d", i))
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod%d", i), Labels: selector.MatchLabels}, Spec: template.Spec}
		pod.Spec.NodeName = fmt.Sprintf("node%d", i%*fleetNodes)
		_, err := f.Client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	return f
}

// write changes an annotation of a pod, beside the time of the write.
func (f *fleet) write(ctx context.Context, i int) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench/written":"%d","bench/generation":"%d"}}}`, time.Now().UnixNano(), f.generation)
	_, err := f.Client.CoreV1().Pods("default").Patch(ctx, fmt.Sprintf("pod%d", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// nodeAgents are the agents of a node.
type nodeAgents struct {
	*process
	in  io.Writer
	out *bufio.Scanner
}

func startAgents(b *testing.B, server string, node, agents int) *nodeAgents {
	b.Helper()
	a := new(nodeAgents)
	a.process = start(b, buildFleetAgents, func(cmd *exec.Cmd) {
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		a.in, a.out = in, bufio.NewScanner(out)
		a.out.Buffer(nil, 16<<20)
	}, server, fmt.Sprintf("node%d", node), strconv.Itoa(agents))
	return a
}

func (a *nodeAgents) ask(b *testing.B, command string) []byte {
	b.Helper()
	if _, err := io.WriteString(a.in, command+"\n"); err != nil {
		b.Fatal(err)
	}
	if !a.out.Scan() {
		b.Fatalf("no answer to %s: %v", command, a.out.Err())
	}
	return a.out.Bytes()
}

// right writes a pod of each node, and returns the time until every agent has it and all other pods, from a moment.
func (f *fleet) right(b *testing.B, agents []*nodeAgents, since time.Time) float64 {
	b.Helper()
	f.generation++
	parallel(b, *fleetNodes, f.write)
	for _, a := range agents {
		a.ask(b, fmt.Sprintf("await %d %d", fleetPods, f.generation))
	}
	return time.Since(since).Seconds()
}

func (f *fleet) measure(b *testing.B, agents int, behind bool) fleetRow {
	b.Helper()
	row := fleetRow{Agents: agents, Behind: behind}
	server := &process{pid: f.APIServer.Pid()}
	var daemons []*process
	var all []*nodeAgents
	sockets := make([]string, *fleetNodes)
	startDaemon := func(i int) *process {
		return start(b, buildPodconfigd, func(*exec.Cmd) {}, "--kubeconfig", f.kubeconfig, "--hostname-override", fmt.Sprintf("node%d", i), "--socket", sockets[i])
	}
	for i := range *fleetNodes {
		from := f.kubeconfig
		if sockets[i] = filepath.Join(testutil.ShortDir(b), "s"); behind {
			from = sockets[i]
			daemons = append(daemons, startDaemon(i))
		}
		if agents > 0 {
			all = append(all, startAgents(b, from, i, agents))
		}
	}
	f.right(b, all, time.Now())
	pause(b, fleetQuiet)

	onNode := func(sum func(*process) float64) (total float64) {
		for _, p := range daemons {
			total += sum(p)
		}
		for _, a := range all {
			total += sum(a.process)
		}
		return total / float64(*fleetNodes)
	}
	cpu := func(p *process) float64 { return float64(p.cpu(b).Milliseconds()) }
	for _, a := range all {
		a.ask(b, "reset")
	}
	before, serverCPU, nodeCPU := f.counts(b), cpu(server), onNode(cpu)
	f.change(b)
	pause(b, fleetQuiet)
	after := f.counts(b)
	seconds := fleetChanging.Seconds()
	row.ServerCPU, row.NodeCPU = (cpu(server)-serverCPU)/seconds, (onNode(cpu)-nodeCPU)/seconds
	row.Watches, row.ServerBytes = after.watches, (after.bytes-before.bytes)/1e3/seconds
	row.ServerMemory = server.memory(b, "RssAnon") / 1e6
	row.NodeMemory = onNode(func(p *process) float64 { return p.memory(b, "RssAnon") / 1e6 })
	row.DelayP50, row.P99 = delaysOf(b, all)

	f.APIServer.Kill(b)
	f.APIServer.Start(b)
	server.pid = f.APIServer.Pid()
	f.AwaitAPIServer(b)
	serverCPU = cpu(server)
	row.Restart.Right = f.right(b, all, time.Now())
	after = f.counts(b) // it counts from zero
	row.Restart.Lists, row.Restart.Bytes, row.Restart.CPU = after.lists, after.bytes/1e3, cpu(server)-serverCPU
	if behind {
		before, serverCPU = after, cpu(server)
		begin := time.Now()
		for i, p := range daemons {
			p.stop()
			daemons[i] = startDaemon(i)
		}
		row.Upgraded.Right = f.right(b, all, begin)
		after = f.counts(b)
		row.Upgraded.Lists, row.Upgraded.Bytes, row.Upgraded.CPU = after.lists-before.lists, (after.bytes-before.bytes)/1e3, cpu(server)-serverCPU
	}
	for _, a := range all {
		a.stop()
	}
	for _, p := range daemons {
		p.stop()
	}
	b.Logf("%+v", row)
	return row
}

// change changes pods at the rate, at random.
func (f *fleet) change(b *testing.B) {
	b.Helper()
	rate := fleetChangesOfNode * float64(*fleetNodes)
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	parallel(b, int(fleetChanging.Seconds()*rate), func(ctx context.Context, _ int) error {
		<-ticker.C
		return f.write(ctx, rand.IntN(*fleetNodes*fleetPods))
	})
}

// delaysOf returns the p50 and p99 of all agents in ms.
func delaysOf(b *testing.B, all []*nodeAgents) (p50, p99 float64) {
	b.Helper()
	var delays []int64
	for _, a := range all {
		var some []int64
		if err := json.Unmarshal(a.ask(b, "report"), &some); err != nil {
			b.Fatal(err)
		}
		delays = append(delays, some...)
	}
	if len(delays) == 0 {
		return 0, 0
	}
	slices.Sort(delays)
	at := func(part float64) float64 { return float64(delays[int(part*float64(len(delays)-1))]) / 1e3 }
	return at(0.5), at(0.99)
}

var podMetric = regexp.MustCompile(`^apiserver_(request_total|response_sizes_sum|watch_events_sizes_sum|longrunning_requests|watch_list_duration_seconds_count)\{(.*resource="pods".*)\} (\S+)$`)

// counts returns what the apiserver has counted for pods: lists are also watches that begin with all pods.
func (f *fleet) counts(b *testing.B) (n counts) {
	b.Helper()
	for _, m := range samples(b, f.Cluster, podMetric) {
		list := strings.Contains(m.labels, `verb="LIST"`)
		switch {
		case m.name == "request_total" && list, m.name == "watch_list_duration_seconds_count":
			n.lists += m.value
		case m.name == "longrunning_requests":
			n.watches += m.value
		case m.name == "response_sizes_sum" && list, m.name == "watch_events_sizes_sum":
			n.bytes += m.value
		}
	}
	return n
}
