package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// cluster is a cluster with helper methods.
type cluster struct {
	*components.Cluster
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{components.Start(t)}
}

func (c *cluster) addNode(t *testing.T, name string) {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newPod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"step": "0"}},
		Spec: v1.PodSpec{
			NodeName: node, Containers: []v1.Container{{Name: "c", Image: "image"}},
			AutomountServiceAccountToken: new(bool),
		},
	}
}

func (c *cluster) addPod(t *testing.T, name, node string) {
	t.Helper()
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), newPod(name, node), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) patch(ctx context.Context, name, patch string, subresources ...string) error {
	_, err := c.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

func (c *cluster) delete(ctx context.Context, name string, grace int64) error {
	return c.Client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}

// daemon starts podconfigd for a node, with its own static pod "static".
func (c *cluster) daemon(t *testing.T, node, kubeconfig string, args ...string) *e2e.Daemon {
	t.Helper()
	dir := filepath.Dir(kubeconfig)
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	(&e2e.Daemon{Dir: dir}).Put(t, "static", "image")
	return e2e.Start(t, dir, append([]string{"--kubeconfig", kubeconfig, "--hostname-override", node}, args...)...)
}

// kubeconfig writes a kubeconfig with the rights that podconfigd needs.
func (c *cluster) kubeconfig(t *testing.T) string {
	t.Helper()
	return c.TokenKubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), components.User)
}

// api returns the status of the apiserver source.
func api(t *testing.T, d *e2e.Daemon) v1alpha1.SourceStatus { t.Helper(); return d.Source(t, "api") }

// Tests that leave the apiserver alone share one cluster. Each has its own nodes.
func TestApiserver(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for name, run := range map[string]func(*testing.T, *cluster){
		"changes":        changesOfPods,
		"three sources":  threeSources,
		"node":           waitsForItsNode,
		"mirror pods":    mirrorPods,
		"managed fields": managedFields,
		"certificate":    wrongCertificate,
		"forbidden":      forbidden,
		"kubeconfig":     brokenKubeconfig,
		"rotation":       rotatedCredentials,
		"token file":     rotatedToken,
		"many pods":      manyPods,
		"in a cluster":   inCluster,
		"a kubelet's":    kubeletsCredentials,
		"ends":           endsWhileWaiting,
		"same answers":   sameAnswers,
		"other objects":  objectsOfTheCluster,
		"https":          overHTTPS,
		"events":         eventsOnNodeAndMirrorPod,
		"no events":      eventsForbidden,
		"status":         statusBesideAKubelet,
		"owners":         ownersOfPods,
		"no owners":      ownersForbidden,
	} {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
}

func changesOfPods(t *testing.T, c *cluster) {
	c.addNode(t, "changes")
	c.addNode(t, "other")
	d := c.daemon(t, "changes", c.kubeconfig(t))
	s := d.Watch(t, client.Options{Source: "api"})
	expectState(t, s)
	ctx := t.Context()

	unbound := newPod("unbound", "")
	if _, err := c.Client.CoreV1().Pods("default").Create(ctx, unbound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.addPod(t, "elsewhere", "other")
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "unbound"}, Target: v1.ObjectReference{Kind: "Node", Name: "changes"},
	}
	if err := c.Client.CoreV1().Pods("default").Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Expect(t, "ADD unbound")
	do(c.patch(ctx, "unbound", `{"metadata":{"labels":{"step":"1"}}}`))
	s.Expect(t, "UPDATE unbound")
	do(c.patch(ctx, "unbound", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status"))
	s.Expect(t, "RECONCILE unbound")
	do(c.patch(ctx, "unbound", `{"metadata":{"annotations":{"kubernetes.io/config.seen":"local to the node"}}}`))
	do(c.delete(ctx, "unbound", 30))
	s.Expect(t, "DELETE unbound")
	do(c.delete(ctx, "unbound", 0)) // the apiserver first sets the grace period to 0
	s.Expect(t, "DELETE unbound", "REMOVE unbound")

	c.addPod(t, "short", "changes")
	s.Expect(t, "ADD short")
	do(c.delete(ctx, "short", 0))
	s.Expect(t, "DELETE short", "REMOVE short")

	// Another pod with the same name is a different pod.
	c.addPod(t, "short", "changes")
	s.Expect(t, "ADD short")
	do(c.delete(ctx, "short", 0))
	s.Expect(t, "DELETE short", "REMOVE short")
	if list, err := d.Client.Pods(ctx); err != nil || len(list.Items) != 1 {
		t.Errorf("pods at the end: %v, %v", list, err)
	}
}

// expectState skips the first state.
func expectState(t *testing.T, s *e2e.Stream) {
	t.Helper()
	for {
		select {
		case u := <-s.Updates:
			if u.Ready != nil && *u.Ready {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("not ready for %v", testutil.Patience)
		}
	}
}

func threeSources(t *testing.T, c *cluster) {
	c.addNode(t, "three")
	web := e2e.NewNginx(t)
	web.Put(t, "pods", `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`)
	d := c.daemon(t, "three", c.kubeconfig(t), "--manifest-url", web.URL+"/pods", "--http-check-frequency", "100ms")
	f := e2e.Follow(t, d)
	c.addPod(t, "bound", "three")
	f.Await(t, "all three", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
	want := map[string]string{"static-three": "file", "web-three": "http", "bound": "api"}
	for _, pod := range f.State() {
		if source := pod.Annotations["kubernetes.io/config.source"]; want[pod.Name] != source {
			t.Errorf("%s is of source %s, want %s", pod.Name, source, want[pod.Name])
		}
	}
	web.Put(t, "pods", `{"apiVersion":"v1","kind":"PodList","items":[]}`)
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "static.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := c.delete(t.Context(), "bound", 0); err != nil {
		t.Fatal(err)
	}
	f.Await(t, "none", func(pods map[string]*v1.Pod) bool { return len(pods) == 0 })
}

func waitsForItsNode(t *testing.T, c *cluster) {
	c.addPod(t, "early", "late-node")
	d := c.daemon(t, "late-node", c.kubeconfig(t))
	metrics := func() string {
		out, err := exec.Command("curl", "-s", "--unix-socket", d.Socket, "http://localhost/metrics").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	f := e2e.Follow(t, d)
	f.Await(t, "the static pod", func(pods map[string]*v1.Pod) bool { return len(pods) == 1 })
	testutil.Until(t, "a clear error", func() bool {
		status := api(t, d)
		return status.Degraded && !status.Seen && !status.API.NodeKnown &&
			strings.Contains(status.LastError, `does not have the node "late-node"`) &&
			strings.Contains(d.Log.String(), `does not have the node \"late-node\"`)
	})
	c.addNode(t, "late-node")
	f.Await(t, "the pod", func(pods map[string]*v1.Pod) bool { return len(pods) == 2 })
	testutil.Until(t, "healthy", func() bool {
		status := api(t, d)
		return !status.Degraded && status.API.NodeKnown && status.API.Connected && status.API.LastList != nil && status.API.LastEvent != nil
	})
	for _, want := range []string{
		"connected{} 1", "degraded{} 0", "failures_total{} ",
	} {
		want = strings.ReplaceAll(strings.Replace("podconfigd_api_source_"+want, "{", `{source="api",`, 1), ",}", "}")
		if !strings.Contains(metrics(), "\n"+want) {
			t.Errorf("there is no metric %s", want)
		}
	}
	out, _ := d.Run(t, "status")
	t.Logf("\n%s", out)
	if !strings.Contains(out, c.Address+", watching, last heard ") {
		t.Errorf("status says:\n%s", out)
	}
}

func mirrorPods(t *testing.T, c *cluster) {
	c.addNode(t, "mirror")
	mirror := newPod("mirror-pod", "mirror")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), mirror, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.addPod(t, "no-mirror", "mirror")
	d := c.daemon(t, "mirror", c.kubeconfig(t))
	f := e2e.Follow(t, d)
	f.Await(t, "all", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
	d.Watch(t, client.Options{NoMirrorPods: true, Source: "api"}).Expect(t, "ADD no-mirror", string(v1alpha1.OpBookmark))
	out, code := d.Run(t, "get", "pods", "--mirror-pods=false", "-o", "name")
	if want := "pod/no-mirror\npod/static-mirror\n"; out != want || code != 0 {
		t.Errorf("get pods without mirror pods: %d %q, want %q", code, out, want)
	}
}

func managedFields(t *testing.T, c *cluster) {
	c.addNode(t, "managed")
	c.addPod(t, "managed", "managed")
	for _, keep := range []bool{false, true} {
		d := c.daemon(t, "managed", c.kubeconfig(t), fmt.Sprintf("--keep-managed-fields=%t", keep))
		f := e2e.Follow(t, d)
		f.Await(t, "both", func(pods map[string]*v1.Pod) bool { return len(pods) == 2 })
		for _, pod := range f.State() {
			if pod.Name == "managed" && (len(pod.ManagedFields) > 0) != keep {
				t.Errorf("keep %t: managedFields %v", keep, pod.ManagedFields)
			}
		}
	}
}

// 500 pods: measured from the list to the last ADD.
func manyPods(t *testing.T, c *cluster) {
	const n = 500
	names := make(chan int)
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			for i := range names {
				_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), newPod(fmt.Sprintf("many-%d", i), "many"), metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		names <- i
	}
	close(names)
	workers.Wait()
	d := c.daemon(t, "many", c.kubeconfig(t))
	s := d.Watch(t, client.Options{Source: "api"})
	testutil.Until(t, "waiting for the node", func() bool { return api(t, d).Degraded })
	c.addNode(t, "many")
	testutil.Until(t, "the list", func() bool { return strings.Contains(d.Log.String(), "The apiserver has the node") })
	for seen := 0; seen < n; {
		select {
		case u := <-s.Updates:
			seen += len(u.Pods)
		case <-time.After(testutil.Patience):
			t.Fatalf("%d pods of %d", seen, n)
		}
	}
	last := time.Now()
	listed := logTime(t, d.Log.String(), "The apiserver has the node")
	t.Logf("%d pods: %v from before the list to after the last ADD", n, last.Sub(listed).Round(time.Millisecond))
}

// logTime returns the time of the log line with the text.
func logTime(t *testing.T, log, text string) time.Time {
	t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			at, err := time.ParseInLocation("0102 15:04:05.000000", line[1:21], time.Local)
			if err != nil {
				t.Fatal(err)
			}
			return at.AddDate(time.Now().Year(), 0, 0)
		}
	}
	t.Fatalf("no log line has %q", text)
	return time.Time{}
}

// The daemon ends at once, also while it waits for an apiserver.
func endsWhileWaiting(t *testing.T, c *cluster) {
	p := components.NewProxy(t, c.Address)
	path := c.kubeconfig(t)
	conf := components.NewKubeconfig("https://"+p.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, path, conf)
	for _, disturbance := range []struct {
		name    string
		begin   func()
		waiting func(d *e2e.Daemon) bool
	}{
		{"silent", p.Hold, func(d *e2e.Daemon) bool { return api(t, d).Name == "api" && p.Connections() > 0 }},
		{"down", func() { p.Release(); p.Down() }, func(d *e2e.Daemon) bool { return api(t, d).Degraded }},
		{"no node", p.Up, func(d *e2e.Daemon) bool { return strings.Contains(api(t, d).LastError, "does not have the node") }},
	} {
		t.Run(disturbance.name, func(t *testing.T) {
			disturbance.begin()
			testutil.Within(t, 3*time.Second, "the end while the apiserver is "+disturbance.name, func() time.Duration { // short: the end is tested
				d := c.daemon(t, "nowhere", path)
				testutil.Until(t, "it waits", func() bool { return disturbance.waiting(d) })
				took, err := d.End(t, syscall.SIGTERM)
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
				return took
			})
		})
	}
}
