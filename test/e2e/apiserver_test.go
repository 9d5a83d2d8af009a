package e2e

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
func (c *cluster) daemon(t *testing.T, node, kubeconfig string, args ...string) *daemon {
	t.Helper()
	dir := filepath.Dir(kubeconfig)
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	(&daemon{dir: dir}).put(t, "static", "image")
	return start(t, dir, append([]string{"--kubeconfig", kubeconfig, "--hostname-override", node}, args...)...)
}

// kubeconfig writes a kubeconfig with the rights that podconfigd needs.
func (c *cluster) kubeconfig(t *testing.T) string {
	t.Helper()
	return c.TokenKubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), components.User)
}

// api returns the status of the apiserver source.
func (d *daemon) api(t *testing.T) v1alpha1.SourceStatus { t.Helper(); return d.source(t, "api") }

// source returns the status of a source; a zero one if the daemon does not answer.
func (d *daemon) source(t *testing.T, name string) v1alpha1.SourceStatus {
	t.Helper()
	status, err := d.client.Status(t.Context())
	if err != nil {
		return v1alpha1.SourceStatus{}
	}
	for _, source := range status.Sources {
		if source.Name == name {
			return source
		}
	}
	return v1alpha1.SourceStatus{}
}

// Each test has its own nodes, and all run on one cluster.
func TestApiserver(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for name, run := range map[string]func(*testing.T, *cluster){
		"changes":         changesOfPods,
		"three sources":   threeSources,
		"node":            waitsForItsNode,
		"mirror pods":     mirrorPods,
		"managed fields":  managedFields,
		"certificate":     wrongCertificate,
		"forbidden":       forbidden,
		"kubeconfig":      brokenKubeconfig,
		"rotation":        rotatedCredentials,
		"token file":      rotatedToken,
		"many pods":       manyPods,
		"in a cluster":    inCluster,
		"a kubelet's":     kubeletsCredentials,
		"ends":            endsWhileWaiting,
		"unknown version": compactedWatch,
		"same answers":    sameAnswers,
		"other objects":   objectsOfTheCluster,
		"https":           overHTTPS,
		"events":          eventsOnNodeAndMirrorPod,
		"no events":       eventsForbidden,
	} {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
}

func changesOfPods(t *testing.T, c *cluster) {
	c.addNode(t, "changes")
	c.addNode(t, "other")
	d := c.daemon(t, "changes", c.kubeconfig(t))
	s := d.watch(t, client.Options{Source: "api"})
	s.expectState(t)
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
	s.expect(t, "ADD unbound")
	do(c.patch(ctx, "unbound", `{"metadata":{"labels":{"step":"1"}}}`))
	s.expect(t, "UPDATE unbound")
	do(c.patch(ctx, "unbound", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status"))
	s.expect(t, "RECONCILE unbound")
	do(c.patch(ctx, "unbound", `{"metadata":{"annotations":{"kubernetes.io/config.seen":"local to the node"}}}`))
	do(c.delete(ctx, "unbound", 30))
	s.expect(t, "DELETE unbound")
	do(c.delete(ctx, "unbound", 0)) // the apiserver first sets the grace period to 0
	s.expect(t, "DELETE unbound", "REMOVE unbound")

	c.addPod(t, "short", "changes")
	s.expect(t, "ADD short")
	do(c.delete(ctx, "short", 0))
	s.expect(t, "DELETE short", "REMOVE short")

	// Another pod with the same name is a different pod.
	c.addPod(t, "short", "changes")
	s.expect(t, "ADD short")
	do(c.delete(ctx, "short", 0))
	s.expect(t, "DELETE short", "REMOVE short")
	if list, err := d.client.Pods(ctx); err != nil || len(list.Items) != 1 {
		t.Errorf("pods at the end: %v, %v", list, err)
	}
}

// expectState skips the first state.
func (s *stream) expectState(t *testing.T) {
	t.Helper()
	for {
		select {
		case u := <-s.updates:
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
	web := newNginx(t)
	web.put(t, "pods", `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`)
	d := c.daemon(t, "three", c.kubeconfig(t), "--manifest-url", web.url+"/pods", "--http-check-frequency", "100ms")
	f := follow(t, d)
	c.addPod(t, "bound", "three")
	f.await(t, "all three", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
	want := map[string]string{"static-three": "file", "web-three": "http", "bound": "api"}
	for _, pod := range f.state() {
		if source := pod.Annotations["kubernetes.io/config.source"]; want[pod.Name] != source {
			t.Errorf("%s is of source %s, want %s", pod.Name, source, want[pod.Name])
		}
	}
	web.put(t, "pods", `{"apiVersion":"v1","kind":"PodList","items":[]}`)
	if err := os.Remove(filepath.Join(d.dir, "manifests", "static.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := c.delete(t.Context(), "bound", 0); err != nil {
		t.Fatal(err)
	}
	f.await(t, "none", func(pods map[string]*v1.Pod) bool { return len(pods) == 0 })
}

func waitsForItsNode(t *testing.T, c *cluster) {
	c.addPod(t, "early", "late-node")
	d := c.daemon(t, "late-node", c.kubeconfig(t))
	metrics := func() string {
		out, err := exec.Command("curl", "-s", "--unix-socket", d.socket, "http://localhost/metrics").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	f := follow(t, d)
	f.await(t, "the static pod", func(pods map[string]*v1.Pod) bool { return len(pods) == 1 })
	testutil.Until(t, "a clear error", func() bool {
		status := d.api(t)
		return status.Degraded && !status.Seen && !status.API.NodeKnown &&
			strings.Contains(status.LastError, `does not have the node "late-node"`) &&
			strings.Contains(d.log.String(), `does not have the node \"late-node\"`)
	})
	c.addNode(t, "late-node")
	f.await(t, "the pod", func(pods map[string]*v1.Pod) bool { return len(pods) == 2 })
	testutil.Until(t, "healthy", func() bool {
		status := d.api(t)
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
	out, _ := d.run(t, "status")
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
	f := follow(t, d)
	f.await(t, "all", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
	d.watch(t, client.Options{NoMirrorPods: true, Source: "api"}).expect(t, "ADD no-mirror", string(v1alpha1.OpBookmark))
	out, code := d.run(t, "get", "pods", "--mirror-pods=false", "-o", "name")
	if want := "pod/no-mirror\npod/static-mirror\n"; out != want || code != 0 {
		t.Errorf("get pods without mirror pods: %d %q, want %q", code, out, want)
	}
}

func managedFields(t *testing.T, c *cluster) {
	c.addNode(t, "managed")
	c.addPod(t, "managed", "managed")
	for _, keep := range []bool{false, true} {
		d := c.daemon(t, "managed", c.kubeconfig(t), fmt.Sprintf("--keep-managed-fields=%t", keep))
		f := follow(t, d)
		f.await(t, "both", func(pods map[string]*v1.Pod) bool { return len(pods) == 2 })
		for _, pod := range f.state() {
			if pod.Name == "managed" && (len(pod.ManagedFields) > 0) != keep {
				t.Errorf("keep %t: managedFields %v", keep, pod.ManagedFields)
			}
		}
	}
}

// complains waits for an error in both the log and the status. Static pods must still be
// delivered.
func complains(t *testing.T, d *daemon, what string) {
	t.Helper()
	begin := time.Now()
	testutil.Until(t, "a clear error: "+what, func() bool {
		status := d.api(t)
		return status.Degraded && strings.Contains(status.LastError, what) &&
			strings.Contains(strings.ReplaceAll(d.log.String(), `\"`, `"`), what)
	})
	t.Logf("%q after %v", d.api(t).LastError, time.Since(begin).Round(time.Millisecond))
	f := follow(t, d)
	d.put(t, "another", "image")
	f.await(t, "static pods", func(pods map[string]*v1.Pod) bool {
		return slices.ContainsFunc(f.stateLocked(), func(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, "another-") })
	})
}

// recovers waits until the source works and has sent the pod.
func recovers(t *testing.T, d *daemon, pod string) {
	t.Helper()
	begin := time.Now()
	f := follow(t, d)
	f.await(t, "the pod "+pod, func(map[string]*v1.Pod) bool {
		return slices.ContainsFunc(f.stateLocked(), func(p *v1.Pod) bool { return p.Name == pod })
	})
	testutil.Until(t, "healthy", func() bool { return !d.api(t).Degraded && d.api(t).API.Connected })
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
	for content, complaint := range map[string]string{
		"":  "the file is empty: expected clusters, users, contexts and a current-context",
		"{": "did not find expected node content",
		"apiVersion: v1\nkind: Config\ncurrent-context: a\n": `current-context "a": expected the name of a context in the file`,
		"missing": "no such file or directory",
	} {
		path := c.kubeconfig(t)
		write := func() {
			if content == "missing" {
				os.Remove(path)
			} else if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write()
		d := c.daemon(t, "kubeconfig", path)
		complains(t, d, complaint)
		c.TokenKubeconfig(t, path, components.User)
		recovers(t, d, "kubeconfig")

		// Bad files do not replace the ones in use.
		write()
		complains(t, d, complaint)
		if !d.api(t).API.Connected {
			t.Error("the watch was given up for a kubeconfig that can't be used")
		}
		c.TokenKubeconfig(t, path, components.User)
		recovers(t, d, "kubeconfig")
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
	f := follow(t, d)
	issue("stranger")
	complains(t, d, `user "user" of kubeconfig `+path+" (client certificate "+filepath.Join(dir, "tls.crt")+`): listing pods: pods is forbidden: User "stranger" cannot list resource "pods"`)
	issue(components.User)
	recovers(t, d, "rotation")
	c.addPod(t, "rotated", "rotation")
	f.await(t, "what came after", func(pods map[string]*v1.Pod) bool { return len(pods) == 4 })
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
		exec "$2" --socket "$1/s" --hostname-override cluster`, "sh", dir, binary)
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	recovers(t, startCommand(t, dir, cmd), "cluster")
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
	s := d.watch(t, client.Options{Source: "api"})
	testutil.Until(t, "waiting for the node", func() bool { return d.api(t).Degraded })
	c.addNode(t, "many")
	testutil.Until(t, "the list", func() bool { return strings.Contains(d.log.String(), "The apiserver has the node") })
	for seen := 0; seen < n; {
		select {
		case u := <-s.updates:
			seen += len(u.Pods)
		case <-time.After(testutil.Patience):
			t.Fatalf("%d pods of %d", seen, n)
		}
	}
	last := time.Now()
	listed := logTime(t, d.log.String(), "The apiserver has the node")
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
		waiting func(d *daemon) bool
	}{
		{"silent", p.Hold, func(d *daemon) bool { return d.api(t).Name == "api" && p.Connections() > 0 }},
		{"down", func() { p.Release(); p.Down() }, func(d *daemon) bool { return d.api(t).Degraded }},
		{"no node", p.Up, func(d *daemon) bool { return strings.Contains(d.api(t).LastError, "does not have the node") }},
	} {
		disturbance.begin()
		testutil.Within(t, 3*time.Second, "the end while the apiserver is "+disturbance.name, func() time.Duration {
			d := c.daemon(t, "nowhere", path)
			testutil.Until(t, "it waits", func() bool { return disturbance.waiting(d) })
			took, err := d.end(t, syscall.SIGTERM)
			if err != nil {
				t.Errorf("%s: it ended with %v", disturbance.name, err)
			}
			return took
		})
	}
}

// The apiserver no longer has the resourceVersion of the watch.
func compactedWatch(t *testing.T, c *cluster) {
	c.addNode(t, "compacted")
	second := components.FreeAddress(t)
	process := c.StartAPIServer(t, second)
	p := components.NewProxy(t, second)
	path := c.kubeconfig(t)
	conf := components.NewKubeconfig("https://"+p.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, path, conf)
	c.addPod(t, "stays", "compacted")
	c.addPod(t, "goes", "compacted")
	d := c.daemon(t, "compacted", path)
	f := follow(t, d)
	f.await(t, "both", func(pods map[string]*v1.Pod) bool { return len(pods) == 3 })
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
	process.Kill(t)
	process.Start(t) // its watch cache starts here
	before := d.api(t).API.Relists
	p.Up()
	f.await(t, "the changes", func(map[string]*v1.Pod) bool {
		names := map[string]string{}
		for _, pod := range f.stateLocked() {
			names[pod.Name] = pod.Labels["step"]
		}
		_, gone := names["goes"]
		return names["stays"] == "5" && names["comes"] == "0" && !gone
	})
	if d.api(t).API.Relists == before {
		t.Error("there was no relist")
	}
	if err := f.err(); err != nil {
		t.Error(err)
	}
}

// Sixty daemons for sixty nodes: each has one watch, and its own pods. A restart of the
// apiserver causes no list of complete pods.
func TestSixtyNodes(t *testing.T) {
	c := startCluster(t)
	const (
		n     = 60
		large = 32 << 10
	)
	watches := func() float64 {
		return c.metric(t, "apiserver_longrunning_requests", `resource="pods"`, `verb="WATCH"`)
	}
	before := watches()
	daemons := make([]*daemon, n)
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
		testutil.Until(t, "ready", func() bool { return d.api(t).Seen })
		list, err := d.client.Pods(t.Context())
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
			s := d.api(t)
			return !s.Degraded && s.API.Connected && s.API.WatchRestarts+s.API.Relists > 0
		})
		if api := d.api(t).API; api.Relists != 0 {
			t.Errorf("daemon %d listed its pods again: %+v\n%s", i, api, d.log)
		}
	}
	sent := c.metric(t, "apiserver_response_sizes_sum", `resource="pods"`, `verb="LIST"`)
	lists := c.metric(t, "apiserver_request_total", `resource="pods"`, `verb="LIST"`, `code="200"`)
	watchLists := c.metric(t, "apiserver_watch_list_duration_seconds_count", `resource="pods"`)
	events := c.metric(t, "apiserver_watch_events_total", `resource="pods"`)
	t.Logf("%.0f lists of metadata, %.0f bytes together; %.0f watches that list; %.0f events of watches", lists, sent, watchLists, events)
	// The apiserver itself has an informer of all pods. A daemon compares more than once
	// if the apiserver refuses the watch while it starts.
	if lists < n || sent/lists > large/10 || watchLists > n/10 {
		t.Error("pods were listed as wholes")
	}

	// The watches work.
	for i, d := range daemons {
		f := follow(t, d)
		c.do(t, c.patch(t.Context(), fmt.Sprintf("pod-of-n%d", i), `{"metadata":{"labels":{"step":"1"}}}`))
		f.await(t, "the change", func(pods map[string]*v1.Pod) bool {
			return slices.ContainsFunc(f.stateLocked(), func(pod *v1.Pod) bool { return pod.Labels["step"] == "1" })
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
