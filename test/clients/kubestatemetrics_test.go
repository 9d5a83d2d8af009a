package clients

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
)

// kubeStateMetrics compares the pods in the metrics of kube-state-metrics.
func kubeStateMetrics(t *testing.T, n *node) view {
	t.Helper()
	address := components.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	_, telemetry, _ := net.SplitHostPort(components.FreeAddress(t))
	run(t, exec.CommandContext(context.Background(), installed(t, "kube-state-metrics"), "--kubeconfig", n.kubeconfig(t),
		"--resources=pods", "--node=node1", "--metric-labels-allowlist=pods=[version]",
		"--host=127.0.0.1", "--port="+port, "--telemetry-host=127.0.0.1", "--telemetry-port="+telemetry), func(string) {})
	return view{want: seenPods, got: func(ctx context.Context) ([]string, error) { return podMetrics(ctx, address) }}
}

// metric is a metric that says something of a pod, and label a label of it.
var (
	metric = regexp.MustCompile(`(?m)^kube_pod_(info|labels|status_phase|container_info)\{(.*)\} 1$`)
	label  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// podMetrics puts the metrics of each pod together.
func podMetrics(ctx context.Context, address string) (lines []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	pods := make(map[string]*seen)
	for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
		labels := make(map[string]string)
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		pod := pods[labels["uid"]]
		if pod == nil {
			pod = &seen{Containers: make(map[string]string)}
			pods[labels["uid"]] = pod
		}
		switch m[1] {
		case "info":
			pod.Namespace, pod.Name, pod.UID = labels["namespace"], labels["pod"], labels["uid"]
			pod.Node, pod.IP = labels["node"], labels["pod_ip"]
		case "labels":
			pod.Version = labels["label_version"]
		case "status_phase":
			pod.Phase = labels["phase"]
		case "container_info":
			pod.Containers[labels["container"]] = labels["container_id"]
		}
	}
	for _, pod := range pods {
		lines = append(lines, line(pod))
	}
	return lines, nil
}
