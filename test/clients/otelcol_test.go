package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
)

// collector compares what the processor k8s_attributes adds for each pod, by UID and by IP,
// and the endpoints of the extension k8s_observer.
type collector struct {
	node      *node
	questions string
	// current are the UIDs of the pods, by name.
	current map[string]string
	// kept are the UIDs of pods whose name another pod took over.
	kept      map[string]bool
	mu        sync.Mutex
	endpoints string
}

func openTelemetry(t *testing.T, n *node) view {
	t.Helper()
	c := &collector{node: n, questions: components.FreeAddress(t), kept: make(map[string]bool)}
	cmd := exec.CommandContext(context.Background(), installed(t, "otelcol"), "--config",
		n.config(t, "otelcol.yaml", "127.0.0.1:4318", c.questions))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.kubeconfig(t))
	run(t, cmd, func(line string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endpoints = line
	})
	return view{want: c.want, got: c.got}
}

// attributes are the attributes that the processor adds.
type attributes struct {
	By, Namespace, Name, UID, Node, IP, Version, Container, Image, NamespaceLabel, Host string
}

// endpoint is an endpoint of the observer.
type endpoint struct {
	Endpoint, Type, Namespace, Name, UID, Version, Container string
}

func (c *collector) want(pods []v1.Pod) []string {
	c.current = make(map[string]string)
	lines := []string{line(endpoint{Endpoint: "192.0.2.7", Type: "k8s.node", Name: "node1"})}
	for i := range pods {
		p := &pods[i]
		c.current[p.Name] = string(p.UID)
		a := attributes{
			By: string(p.UID), Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, IP: p.Status.PodIP,
			Version: p.Labels["version"], NamespaceLabel: p.Namespace, Host: "node1",
			Image: strings.TrimSuffix(p.Spec.Containers[0].Image, ":1"),
		}
		for j := range p.Status.ContainerStatuses {
			_, a.Container, _ = strings.Cut(p.Status.ContainerStatuses[j].ContainerID, "://")
		}
		lines = append(lines, line(a))
		if p.Status.PodIP == "" {
			continue
		}
		a.By = p.Status.PodIP
		lines = append(lines, line(a))
		e := endpoint{Endpoint: p.Status.PodIP, Type: "pod", Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Version: p.Labels["version"]}
		lines = append(lines, line(e))
		e.Type, e.Container = "pod.container", a.Container
		lines = append(lines, line(e))
		e.Type, e.Endpoint = "port", e.Endpoint+":8080"
		lines = append(lines, line(e))
	}
	return lines
}

func (c *collector) got(ctx context.Context) ([]string, error) {
	lines, err := c.listed()
	if err != nil {
		return nil, err
	}
	for id, name := range c.node.known {
		a, err := c.ask(ctx, url.Values{name: {id}, "k8s.container.name": {"c"}})
		if err != nil {
			return nil, err
		}
		if a.Name == "" || c.replaced(a) {
			continue
		}
		a.By = id
		lines = append(lines, line(a))
	}
	return lines, nil
}

// replaced is whether another pod has taken over the name, now or earlier. The processor
// forgets a pod only if it sees that the pod is deleted. An informer that lists again sees an
// update of the name, whose old pod the processor ignores and then keeps for good. With a
// state directory, the informer resumes.
func (c *collector) replaced(a attributes) bool {
	if uid, ok := c.current[a.Name]; ok && uid != a.UID && !c.node.durable {
		c.kept[a.UID] = true
	}
	return c.kept[a.UID]
}

// ask sends a question through the pipeline.
func (c *collector) ask(ctx context.Context, question url.Values) (a attributes, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.questions+"/?"+question.Encode(), http.NoBody)
	if err != nil {
		return a, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: %s (%w)", resp.Status, body, err)
	}
	var answer map[string]string
	if err := json.Unmarshal(body, &answer); err != nil {
		return a, fmt.Errorf("%w: %s", err, body)
	}
	return attributes{
		Namespace: answer["k8s.namespace.name"], Name: answer["k8s.pod.name"], UID: answer["k8s.pod.uid"], Node: answer["k8s.node.name"],
		IP: answer["k8s.pod.ip"], Version: answer["version"], Container: answer["container.id"], Image: answer["container.image.name"],
		NamespaceLabel: answer["namespace"], Host: answer["host"],
	}, nil
}

// listed are the endpoints of the observer.
func (c *collector) listed() (lines []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var endpoints []struct {
		Endpoint, Type, Name, Namespace, UID string
		Container                            string `json:"container_id"`
		Labels                               map[string]string
		Pod                                  struct {
			Name, Namespace, UID string
			Labels               map[string]string
		}
	}
	if err := json.Unmarshal([]byte(c.endpoints), &endpoints); err != nil {
		return nil, fmt.Errorf("%w: %q", err, c.endpoints)
	}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Type != "pod" && e.Type != "k8s.node" {
			e.Name, e.Namespace, e.UID, e.Labels = e.Pod.Name, e.Pod.Namespace, e.Pod.UID, e.Pod.Labels
		}
		lines = append(lines, line(endpoint{
			Endpoint: e.Endpoint, Type: e.Type, Namespace: e.Namespace, Name: e.Name, UID: e.UID, Version: e.Labels["version"], Container: e.Container,
		}))
	}
	return lines, nil
}
