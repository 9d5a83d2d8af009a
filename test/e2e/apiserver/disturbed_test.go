package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Tests that kill the apiserver or etcd share another cluster, one after another. Each has its own nodes.
func TestDisturbedApiserver(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	c := startCluster(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *cluster)
	}{
		{"sixty nodes", sixtyNodes},
		{"unknown version", compactedWatch},
		{"absent at the start", startsWithoutTheApiserver},
		{"faults", apiserverFaults},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// Sixty daemons for sixty nodes: each has one watch, and its own pods. After a restart of the
// apiserver, each lists its pods again.
func sixtyNodes(t *testing.T, c *cluster) {
	const (
		n     = 60
		large = 32 << 10
	)
	watches := func() float64 {
		return c.metric(t, "apiserver_longrunning_requests", `resource="pods"`, `verb="WATCH"`)
	}
	before := watches()
	daemons := make([]*e2e.Daemon, n)
	for i := range daemons {
		node := fmt.Sprintf("n%d", i)
		c.addNode(t, node)
		pod := newPod("pod-of-"+node, node)
		pod.Spec.Containers[0].Args = []string{strings.Repeat("x", large)}
		_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		c.do(t, err)
		daemons[i] = c.daemon(t, node, c.kubeconfig(t))
	}
	for i, d := range daemons {
		testutil.Until(t, "ready", func() bool { return api(t, d).Seen })
		list, err := d.Client.Pods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		node := fmt.Sprintf("n%d", i)
		if len(list.Items) != 2 || list.Items[0].Name != "pod-of-"+node || list.Items[1].Name != "static-"+node {
			t.Errorf("%s has %d pods: %v", node, len(list.Items), list.Items)
		}
	}
	testutil.Until(t, "a watch for each", func() bool { return watches()-before == n })

	c.pass(t, c.revision(t)+100)
	c.APIServer.Kill(t)
	c.APIServer.Start(t) // its metrics start at zero
	c.AwaitAPIServer(t)
	for i, d := range daemons {
		testutil.Until(t, "healthy again", func() bool {
			s := api(t, d)
			return !s.Degraded && s.API.Connected && s.API.WatchRestarts+s.API.Relists > 0
		})
		if api := api(t, d).API; api.Relists == 0 || api.Relists > 5 {
			t.Errorf("daemon %d listed its pods again %d times\n%s", i, api.Relists, d.Log)
		}
	}
	lists := c.metric(t, "apiserver_request_total", `resource="pods"`, `verb="LIST"`, `code="200"`)
	watchLists := c.metric(t, "apiserver_watch_list_duration_seconds_count", `resource="pods"`)
	sent := c.metric(t, "apiserver_watch_events_sizes_sum", `resource="pods"`)
	t.Logf("%.0f lists, %.0f watches that list; %.0f bytes of events of watches", lists, watchLists, sent)
	// Until the apiserver knows its roles, it refuses some watches. Then a list comes next, with a watch after it.
	if all := lists + watchLists; all < n || all > 3*n || watchLists == 0 {
		t.Errorf("%.0f lists of both kinds for %d daemons", all, n)
	}

	// The watches work.
	for i, d := range daemons {
		f := e2e.Follow(t, d)
		c.do(t, c.patch(t.Context(), fmt.Sprintf("pod-of-n%d", i), `{"metadata":{"labels":{"step":"1"}}}`))
		f.Await(t, "the change", func(pods map[string]*v1.Pod) bool {
			return slices.ContainsFunc(f.StateLocked(), func(pod *v1.Pod) bool { return pod.Labels["step"] == "1" })
		})
	}
}

// metric returns the sum of a metric's series with the labels.
func (c *cluster) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	data, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
lines:
	for line := range strings.Lines(string(data)) {
		series, rest, ok := strings.Cut(strings.TrimSpace(line), "}")
		if !ok || !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		var value float64
		if _, err := fmt.Sscan(rest, &value); err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// The apiserver no longer has the resourceVersion of the watch.
func compactedWatch(t *testing.T, c *cluster) {
	c.addNode(t, "compacted")
	p := components.NewProxy(t, c.Address)
	path := c.kubeconfig(t)
	conf := components.NewKubeconfig("https://"+p.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, path, conf)
	c.addPod(t, "stays", "compacted")
	c.addPod(t, "goes", "compacted")
	d := c.daemon(t, "compacted", path)
	f := e2e.Follow(t, d)
	f.Await(t, "both", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
	p.Down()
	for i := range 5 {
		if err := c.patch(t.Context(), "stays", fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.delete(t.Context(), "goes", 0); err != nil {
		t.Fatal(err)
	}
	c.addPod(t, "comes", "compacted")
	c.APIServer.Kill(t)
	c.APIServer.Start(t) // its watch cache starts here
	c.AwaitAPIServer(t)
	before := api(t, d).API.Relists
	p.Up()
	f.Await(t, "the changes", func(map[string]*v1.Pod) bool {
		names := map[string]string{}
		for _, pod := range f.StateLocked() {
			names[pod.Name] = pod.Labels["step"]
		}
		_, gone := names["goes"]
		return names["stays"] == "5" && names["comes"] == "0" && !gone
	})
	if api(t, d).API.Relists == before {
		t.Error("there was no relist")
	}
	if err := f.Err(); err != nil {
		t.Error(err)
	}
}
