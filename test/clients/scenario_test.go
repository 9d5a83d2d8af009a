package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// view is what a client has, as lines that can be compared.
type view struct {
	// want is what the client must have if these are the pods.
	want func([]v1.Pod) []string
	// got is what the client has.
	got func(context.Context) ([]string, error)
}

// clients are all clients, by name. The value starts the client until the test ends.
var clients = map[string]func(*testing.T, *node) view{
	"client-go typed":            typedInformer,
	"client-go dynamic":          dynamicInformer,
	"client-go metadata":         metadataInformer,
	"OpenTelemetry":              openTelemetry,
	"Telegraf":                   runTelegraf,
	"grpcurl":                    grpcurl,
	"kubectl":                    kubectl,
	"Node.js":                    nodeJS,
	"Python":                     python,
	"Prometheus":                 prometheus,
	"Prometheus attach_metadata": prometheusAttached,
	"controller-runtime":         controllerRuntime,
	"kube-state-metrics":         kubeStateMetrics,
	"Kepler":                     kepler,
}

// short are the clients of the short form. They need no installation.
var short = []string{"client-go typed", "client-go dynamic", "client-go metadata", "kubectl"}

// TestClients runs each client while manifests change and the daemon is killed.
func TestClients(t *testing.T) {
	names := slices.Sorted(maps.Keys(clients))
	var cri *containerd
	if testing.Short() {
		names = short
	} else {
		cri = startContainerd(t)
	}
	for _, name := range names {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/durable=%t", name, durable), func(t *testing.T) {
				t.Parallel()
				scenario(t, newNode(t, cri, durable), clients[name])
			})
		}
	}
}

func scenario(t *testing.T, n *node, start func(*testing.T, *node) view) {
	t.Helper()
	n.start(t)
	n.runSteady(t)
	v := start(t, n)
	n.await(t, v, "at the start")
	n.churn(t, 200)
	n.await(t, v, "after changes")

	n.kill(t)
	n.churn(t, 20)
	if n.cri != nil {
		n.cri.restart(t, n.steady["steady-b"])
	}
	n.start(t)
	n.await(t, v, "after kill -9")

	n.churn(t, 200)
	n.remove(t, "steady-c")
	if n.cri != nil {
		n.cri.restart(t, n.steady["steady-a"])
		n.cri.RemoveSandbox(t, n.steady["steady-c"].sandbox)
		delete(n.steady, "steady-c")
	}
	n.await(t, v, "at the end")
}

// runSteady runs the steady pods in the runtime.
func (n *node) runSteady(t *testing.T) {
	t.Helper()
	if n.cri == nil {
		return
	}
	var pods []v1.Pod
	testutil.Eventually(t, func() (err error) {
		pods, err = n.pods()
		return err
	})
	for i := range pods {
		if name := strings.TrimSuffix(pods[i].Name, "-node1"); slices.Contains(steadyNames, name) {
			n.steady[name] = n.cri.run(t, &pods[i])
		}
	}
}

// await waits until the client has the pods of /pods.
func (n *node) await(t *testing.T, v view, when string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		pods, err := n.pods()
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		want := v.want(pods)
		got, err := v.got(t.Context())
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		slices.Sort(want)
		slices.Sort(got)
		if missing := without(want, got); len(missing) > 0 {
			return fmt.Errorf("%s, the client does not have\n%s\nit has also\n%s", when, missing, without(got, want))
		}
		if more := without(got, want); len(more) > 0 {
			return fmt.Errorf("%s, the client has also\n%s", when, more)
		}
		return nil
	})
}

// without returns the lines of a that b does not have.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// seen is a pod as most clients show it.
type seen struct {
	Namespace, Name, UID, Node, Phase, IP, Version string
	// Containers are the IDs by name.
	Containers map[string]string
}

func see(p *v1.Pod) string {
	s := seen{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: string(p.Status.Phase),
		IP: p.Status.PodIP, Version: p.Labels["version"], Containers: map[string]string{},
	}
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		s.Containers[c.Name] = c.ContainerID
	}
	return line(s)
}

// seenPods is a view's want.
func seenPods(pods []v1.Pod) []string {
	var lines []string
	for i := range pods {
		lines = append(lines, see(&pods[i]))
	}
	return lines
}

// line is the line of a value.
func line(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
