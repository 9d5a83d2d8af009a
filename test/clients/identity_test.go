package clients

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// workloads is how many workloads ask each agent.
var workloads = flag.Int("workloads", 3, "identities of TestSPIRE with each workload attestor")

const (
	attestorPackage = "github.com/podconfigd/podconfigd/examples/spire-attestor"
	workloadImage   = "docker.io/podconfigd/workload:1"
	// beside is how many other pods run.
	beside = 20
)

// TestSPIRE starts workloads, one after the other, which ask an agent of SPIRE for their identity at once. The agent asks the
// kubelet, podconfigd as the kubelet, or podconfigd with a lookup. With each workload, another pod starts, and two pods end.
func TestSPIRE(t *testing.T) {
	testutil.Long(t)
	s := startSPIRE(t)
	for i := range beside {
		s.run(t, fmt.Sprintf("beside-%d", i), components.Image)
	}
	testutil.Eventually(t, func() error { return s.allRun(t) })
	_, port, _ := strings.Cut(s.http, ":")
	_, kubelet, _ := strings.Cut(s.kubelet.ReadOnly, ":")
	ways := []struct {
		name, config string
		replace      []string
	}{
		{"k8s at the kubelet", "spire-k8s.conf", []string{"10255", kubelet}},
		{"k8s at podconfigd", "spire-k8s.conf", []string{"10255", port}},
		{"spire-attestor", "spire-lookup.conf", []string{
			"/usr/local/bin/spire-attestor", testutil.MustProgram(t, "examples/spire-attestor", attestorPackage), "/run/podconfigd/podconfigd.sock", s.socket,
		}},
	}
	rows := []string{"asks | p50 | p90 | max | CPU of the agent, of podconfigd, of the kubelet, each"}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config, err := os.ReadFile(filepath.Join("testdata", way.config))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, way.name+" | "+s.measure(t, strings.NewReplacer(way.replace...).Replace(string(config))))
		})
	}
	t.Logf("%d identities each, %d pods beside:\n%s", *workloads, beside, strings.Join(rows, "\n"))
}

// allRun returns an error until all pods run, as the kubelet says.
func (s *spire) allRun(t *testing.T) error {
	t.Helper()
	pods, err := s.kubelet.Pods(t)
	if err != nil {
		return err
	}
	running := 0
	for _, pod := range pods {
		if statuses := pod.Status.ContainerStatuses; len(statuses) > 0 && statuses[0].State.Running != nil {
			running++
		}
	}
	if running < beside {
		return fmt.Errorf("%d of %d pods run", running, beside)
	}
	return nil
}

// measure returns the figures of an agent, as a row of a table.
func (s *spire) measure(t *testing.T, attestor string) string {
	t.Helper()
	agent := s.startAgent(t, attestor)
	s.awaitEntries(t)

	pids := []int{agent.Process.Pid, s.cmd.Process.Pid, s.kubelet.Pid()}
	before := make([]time.Duration, len(pids))
	for i, pid := range pids {
		before[i] = processorTime(t, pid)
	}
	var took []time.Duration
	for i := range *workloads {
		name := fmt.Sprintf("workload-%d", i)
		s.run(t, fmt.Sprintf("churn-%d", i), components.Image)
		s.run(t, name, workloadImage, "/spire/agent.sock", "/spire/"+name)
		took = append(took, s.identity(t, name))
		if i > 0 {
			s.remove(t, fmt.Sprintf("workload-%d", i-1))
			s.remove(t, fmt.Sprintf("churn-%d", i-1))
		}
	}
	slices.Sort(took)
	row := fmt.Sprintf("%v | %v | %v |", took[len(took)/2], took[len(took)*9/10], took[len(took)-1])
	for i, pid := range pids {
		row += fmt.Sprintf(" %v", (processorTime(t, pid)-before[i])/time.Duration(len(took)))
	}
	s.remove(t, fmt.Sprintf("workload-%d", *workloads-1))
	s.remove(t, fmt.Sprintf("churn-%d", *workloads-1))
	return row
}

// awaitEntries starts workloads until one has its identity: the server and the agent read new entries every five seconds.
func (s *spire) awaitEntries(t *testing.T) {
	t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprintf("first-%d", i)
		s.run(t, name, workloadImage, "/spire/agent.sock", "/spire/"+name)
		answer := s.answer(t, name)
		s.remove(t, name)
		switch {
		case answer.ID == workloadID:
			return
		case i == 60:
			t.Fatalf("no workload has an identity: %s", answer.Error)
		}
	}
}

// run writes the manifest of a pod. The UID has the form of those of an apiserver: SPIRE finds only these in the names of cgroups.
func (s *spire) run(t *testing.T, name, image string, args ...string) {
	t.Helper()
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	arguments, err := json.Marshal(append([]string{}, args...))
	if err != nil {
		t.Fatal(err)
	}
	app, _, _ := strings.Cut(name, "-")
	if image == workloadImage {
		app = "workload"
	}
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, uid: %x-%x-%x-%x-%x, labels: {app: %s}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %q, args: %s, volumeMounts: [{name: spire, mountPath: /spire}]}]
  volumes: [{name: spire, hostPath: {path: %q}}]
`, name, id[:4], id[4:6], id[6:8], id[8:10], id[10:], app, image, arguments,
		filepath.Join(s.dir, "agent"))
	temp := filepath.Join(s.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, s.path(name)); err != nil {
		t.Fatal(err)
	}
}

// identity waits until a workload has its identity, and returns how long the workload waited for it.
func (s *spire) identity(t *testing.T, name string) time.Duration {
	t.Helper()
	answer := s.answer(t, name)
	if answer.ID != workloadID {
		t.Errorf("%s has the identity %q after %v: %s", name, answer.ID, answer.Took, answer.Error)
	}
	return answer.Took
}

// answer is what test/clients/workload writes.
type answer struct {
	ID, Error string
	Took      time.Duration
}

// answer waits for the answer to a workload.
func (s *spire) answer(t *testing.T, name string) (a answer) {
	t.Helper()
	path := filepath.Join(s.dir, "agent", name)
	testutil.Eventually(t, func() error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &a)
	})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return a
}

// processorTime returns what a process has used, with its children that run, such as the plugins of an agent.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	ticks := 0
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest) // from field 3
		if path != fmt.Sprintf("/proc/%d/stat", pid) && fields[1] != strconv.Itoa(pid) {
			continue
		}
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}
