package apiserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// cluster is a cluster with helper methods.
type cluster struct {
	*components.Cluster
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
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
		"connected{} 1", "degraded{} 0", "relists_total{} 0", "watch_restarts_total{} 0", `watch_events_total{type="ADDED"} 1`,
		"failures_total{} ", "last_list_timestamp_seconds{} ", "last_event_timestamp_seconds{} ",
	} {
		want = strings.ReplaceAll(strings.Replace("podconfigd_api_source_"+want, "{", `{source="api",`, 1), ",}", "}")
		if !strings.Contains(metrics(), "\n"+want) {
			t.Errorf("there is no metric %s", want)
		}
	}
	out, _ := d.Run(t, "status")
	t.Logf("\n%s", out)
	if !strings.Contains(out, c.Address+", watching, last event ") {
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

// complains waits for an error in both the log and the status. Static pods must still be
// delivered.
func complains(t *testing.T, d *e2e.Daemon, what string) {
	t.Helper()
	begin := time.Now()
	testutil.Until(t, "a clear error: "+what, func() bool {
		status := api(t, d)
		return status.Degraded && strings.Contains(status.LastError, what) &&
			strings.Contains(strings.ReplaceAll(d.Log.String(), `\"`, `"`), what)
	})
	t.Logf("%q after %v", api(t, d).LastError, time.Since(begin).Round(time.Millisecond))
	f := e2e.Follow(t, d)
	d.Put(t, "another", "image")
	f.Await(t, "static pods", func(pods map[string]*v1.Pod) bool {
		return slices.ContainsFunc(f.StateLocked(), func(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, "another-") })
	})
}

// recovers waits until the source works and has sent the pod.
func recovers(t *testing.T, d *e2e.Daemon, pod string) {
	t.Helper()
	begin := time.Now()
	f := e2e.Follow(t, d)
	f.Await(t, "the pod "+pod, func(map[string]*v1.Pod) bool {
		return slices.ContainsFunc(f.StateLocked(), func(p *v1.Pod) bool { return p.Name == pod })
	})
	testutil.Until(t, "healthy", func() bool { return !api(t, d).Degraded && api(t, d).API.Connected })
	t.Logf("recovered after %v", time.Since(begin).Round(time.Millisecond))
}

func wrongCertificate(t *testing.T, c *cluster) {
	c.addNode(t, "cert")
	c.addPod(t, "cert", "cert")
	path := c.kubeconfig(t)
	conf := components.NewKubeconfig("https://"+c.Address, components.NewAuthority(t, "another").PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, path, conf)
	d := c.daemon(t, "cert", path)
	complains(t, d, "certificate signed by unknown authority")
	c.TokenKubeconfig(t, path, components.User)
	recovers(t, d, "cert")
}

func forbidden(t *testing.T, c *cluster) {
	c.addNode(t, "forbidden")
	c.addPod(t, "forbidden", "forbidden")
	path := c.TokenKubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), components.Nobody)
	d := c.daemon(t, "forbidden", path)
	complains(t, d, `user "user" of kubeconfig `+path+` (token in the kubeconfig): nodes "forbidden" is forbidden: User "nobody" cannot get resource "nodes"`)
	c.Bind(t, components.Nobody)
	recovers(t, d, "forbidden")
}

func brokenKubeconfig(t *testing.T, c *cluster) {
	c.addNode(t, "kubeconfig")
	c.addPod(t, "kubeconfig", "kubeconfig")
	for name, test := range map[string]struct{ content, complaint string }{
		"empty":           {"", "the file is empty: expected clusters, users, contexts and a current-context"},
		"no YAML":         {"{", "did not find expected node content"},
		"unknown context": {"apiVersion: v1\nkind: Config\ncurrent-context: a\n", `current-context "a": expected the name of a context in the file`},
		"missing":         {"missing", "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.kubeconfig(t)
			write := func() {
				if test.content == "missing" {
					os.Remove(path)
				} else if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write()
			d := c.daemon(t, "kubeconfig", path)
			complains(t, d, test.complaint)
			c.TokenKubeconfig(t, path, components.User)
			recovers(t, d, "kubeconfig")

			// Bad files do not replace the ones in use.
			write()
			complains(t, d, test.complaint)
			if !api(t, d).API.Connected {
				t.Error("the watch was given up for a kubeconfig that can't be used")
			}
			c.TokenKubeconfig(t, path, components.User)
			recovers(t, d, "kubeconfig")
		})
	}
}

// A client certificate is replaced. New requests use the new one.
func rotatedCredentials(t *testing.T, c *cluster) {
	c.addNode(t, "rotation")
	c.addPod(t, "rotation", "rotation")
	path := c.kubeconfig(t)
	dir := filepath.Dir(path)
	issue := func(user string) {
		cert, key := c.Authority.Issue(t, user)
		for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue("stranger")
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), c.Authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	conf := components.NewKubeconfig("https://"+c.Address, nil)
	conf.Clusters["cluster"].CertificateAuthority = "ca.crt" // paths are relative to the kubeconfig
	conf.AuthInfos["user"].ClientCertificate, conf.AuthInfos["user"].ClientKey = "tls.crt", "tls.key"
	components.WriteKubeconfig(t, path, conf)
	d := c.daemon(t, "rotation", path)
	complains(t, d, `User "stranger" cannot get resource "nodes"`)
	issue(components.User)
	recovers(t, d, "rotation")
	f := e2e.Follow(t, d)
	issue("stranger")
	complains(t, d, `user "user" of kubeconfig `+path+" (client certificate "+filepath.Join(dir, "tls.crt")+`): listing pods: pods is forbidden: User "stranger" cannot list resource "pods"`)
	issue(components.User)
	recovers(t, d, "rotation")
	c.addPod(t, "rotated", "rotation")
	f.Await(t, "what came after", func(pods map[string]*v1.Pod) bool { return len(pods) == 4 })
}

// The rights of a kubelet are enough.
func kubeletsCredentials(t *testing.T, c *cluster) {
	c.addNode(t, "kubelets")
	c.addPod(t, "kubelets", "kubelets")
	path := c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "system:node:kubelets", "system:nodes")
	recovers(t, c.daemon(t, "kubelets", path), "kubelets")
}

// In a pod with a service account, no kubeconfig is needed. The pod is a mount namespace
// with the files that a kubelet would create.
func inCluster(t *testing.T, c *cluster) {
	if os.Getuid() != 0 {
		t.Skip("makes a mount namespace")
	}
	c.addNode(t, "cluster")
	c.addPod(t, "cluster", "cluster")
	accounts := c.Client.CoreV1().ServiceAccounts("kube-system")
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "podconfigd"}}
	testutil.Until(t, "the service account", func() bool { // the apiserver creates its namespace with a delay
		_, err := accounts.Create(t.Context(), account, metav1.CreateOptions{})
		return err == nil
	})
	token, err := accounts.CreateToken(t.Context(), "podconfigd", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := testutil.ShortDir(t)
	for name, data := range map[string]string{"token": token.Status.Token, "ca.crt": string(c.Authority.PEM)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `
		mount -t tmpfs tmpfs /run
		mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
		mount --bind "$1" /var/run/secrets/kubernetes.io/serviceaccount
		exec "$2" --socket "$1/s" --hostname-override cluster`, "sh", dir, e2e.Binary)
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	recovers(t, e2e.StartCommand(t, dir, cmd), "cluster")
}

// A token in a file is replaced.
func rotatedToken(t *testing.T, c *cluster) {
	c.addNode(t, "token")
	c.addPod(t, "token", "token")
	path := c.kubeconfig(t)
	token := filepath.Join(filepath.Dir(path), "token")
	if err := os.WriteFile(token, []byte("an old one"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := components.NewKubeconfig("https://"+c.Address, c.Authority.PEM)
	conf.AuthInfos["user"].TokenFile = token
	components.WriteKubeconfig(t, path, conf)
	d := c.daemon(t, "token", path)
	complains(t, d, `the apiserver refused the credentials of user "user" of kubeconfig `+path+" (token file "+token+"): Unauthorized")
	if err := os.WriteFile(token, []byte(components.User+"-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	recovers(t, d, "token")
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
		disturbance.begin()
		testutil.Within(t, 3*time.Second, "the end while the apiserver is "+disturbance.name, func() time.Duration {
			d := c.daemon(t, "nowhere", path)
			testutil.Until(t, "it waits", func() bool { return disturbance.waiting(d) })
			took, err := d.End(t, syscall.SIGTERM)
			if err != nil {
				t.Errorf("%s: it ended with %v", disturbance.name, err)
			}
			return took
		})
	}
}
