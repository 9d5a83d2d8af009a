package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
)

// prometheus compares the targets that Prometheus discovers, and what it says about their
// scrapes.
func prometheus(t *testing.T, n *node) view {
	t.Helper()
	return runPrometheus(t, n, "prometheus.yml", false)
}

// prometheusAttached has labels of the node and the namespace, too.
func prometheusAttached(t *testing.T, n *node) view {
	t.Helper()
	n.kubeconfig(t)
	return runPrometheus(t, n, "prometheus-attach.yml", true)
}

func runPrometheus(t *testing.T, n *node, config string, attached bool) view {
	t.Helper()
	address := components.FreeAddress(t)
	cmd := exec.CommandContext(context.Background(), installed(t, "prometheus"), "--config.file", n.config(t, config),
		"--storage.tsdb.path", t.TempDir(), "--web.listen-address", address)
	run(t, cmd, func(string) {})
	return view{
		want: func(pods []v1.Pod) []string { return n.scraped(pods, attached) },
		got:  func(ctx context.Context) ([]string, error) { return targets(ctx, address) },
	}
}

// scrape is a target of Prometheus. It has no targets for pods without an IP.
type scrape struct {
	Pod        seen
	URL, State string
	// Host and NamespaceLabel are labels of the node and the namespace.
	Host, NamespaceLabel string
}

func (n *node) scraped(pods []v1.Pod, attached bool) (lines []string) {
	for i := range pods {
		p := &pods[i]
		if p.Status.PodIP == "" {
			continue
		}
		for j := range p.Status.ContainerStatuses {
			c := &p.Status.ContainerStatuses[j]
			s := scrape{Pod: seen{
				Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: string(p.Status.Phase),
				IP: p.Status.PodIP, Version: p.Labels["version"], Containers: map[string]string{c.Name: c.ContainerID},
			}}
			s.URL = fmt.Sprintf("http://%s:%s/metrics/%s", p.Status.PodIP, n.target, strings.TrimSuffix(p.Name, "-node1"))
			s.State = "up"
			if attached {
				s.Host, s.NamespaceLabel = "node1", p.Namespace
			}
			lines = append(lines, line(s))
		}
	}
	return lines
}

// targets asks Prometheus for its targets.
func targets(ctx context.Context, address string) (lines []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/targets", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				DiscoveredLabels             map[string]string
				ScrapeURL, Health, LastError string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	for _, target := range answer.Data.ActiveTargets {
		label := func(name string) string { return target.DiscoveredLabels["__meta_kubernetes_"+name] }
		lines = append(lines, line(scrape{
			Pod: seen{
				Namespace: label("namespace"), Name: label("pod_name"), UID: label("pod_uid"), Node: label("pod_node_name"),
				Phase: label("pod_phase"), IP: label("pod_ip"), Version: label("pod_label_version"),
				Containers: map[string]string{label("pod_container_name"): label("pod_container_id")},
			},
			Host: label("node_label_kubernetes_io_hostname"), NamespaceLabel: label("namespace_label_kubernetes_io_metadata_name"),
			URL: target.ScrapeURL, State: target.Health + target.LastError,
		}))
	}
	return lines, nil
}
