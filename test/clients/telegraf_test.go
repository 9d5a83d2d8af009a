package clients

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// telegraf compares the tags of the metrics that Telegraf gets from the pods of the
// kubelet's /pods, over https.
type telegraf struct {
	mu    sync.Mutex
	lines []string
}

func runTelegraf(t *testing.T, n *node) view {
	t.Helper()
	if err := os.Rename(n.config(t, "kubeconfig-https"), filepath.Join(n.dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	tg := new(telegraf)
	cmd := exec.CommandContext(context.Background(), installed(t, "telegraf"), "--config",
		n.config(t, "telegraf.conf", `node_ip = "127.0.0.1"`, fmt.Sprintf("node_ip = %q", n.ip)))
	run(t, cmd, func(line string) {
		tg.mu.Lock()
		defer tg.mu.Unlock()
		tg.lines = append(tg.lines, line)
	})
	return view{want: n.metrics, got: tg.got}
}

// metrics are the tags of the pods that Telegraf scrapes: the ready pods.
func (n *node) metrics(pods []v1.Pod) (lines []string) {
	for i := range pods {
		p := &pods[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
		if p.Status.Phase == v1.PodRunning && ready {
			name := strings.TrimSuffix(p.Name, "-node1")
			lines = append(lines, fmt.Sprintf("namespace=%s pod_name=%s version=%s url=http://%s:%s/metrics/%s",
				p.Namespace, p.Name, p.Labels["version"], p.Status.PodIP, n.target, name))
		}
	}
	return lines
}

var tag = regexp.MustCompile(`(namespace|pod_name|version|url)=([^, ]+)`)

// got returns the metrics between a scrape of steady-a and the second scrape after it. They include
// one whole gathering. The next call gets later metrics.
func (tg *telegraf) got(context.Context) (lines []string, err error) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	var scrapes []int
	for i, line := range tg.lines {
		if strings.Contains(line, "pod_name=steady-a-node1") {
			scrapes = append(scrapes, i)
		}
	}
	if len(scrapes) < 3 {
		return nil, fmt.Errorf("telegraf has scraped a pod %d times", len(scrapes))
	}
	found := make(map[string]bool)
	for _, line := range tg.lines[scrapes[0]:scrapes[2]] {
		tags := make(map[string]string)
		for _, m := range tag.FindAllStringSubmatch(line, -1) {
			tags[m[1]] = m[2]
		}
		found[fmt.Sprintf("namespace=%s pod_name=%s version=%s url=%s", tags["namespace"], tags["pod_name"], tags["version"], tags["url"])] = true
	}
	tg.lines = nil
	return slices.Collect(maps.Keys(found)), nil
}
