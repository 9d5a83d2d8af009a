package apiserver

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// away is a daemon with a route to the apiserver that can be closed.
type away struct {
	name        string
	d           *e2e.Daemon
	f           *e2e.Replica
	close, open func(t *testing.T)
}

// ways starts a daemon for the node on each of three routes to the apiserver.
func (c *cluster) ways(t *testing.T, node string) []*away {
	t.Helper()
	direct := &away{name: "direct", d: c.daemon(t, node, c.kubeconfig(t))}
	direct.close = func(t *testing.T) { t.Helper(); direct.d.Signal(t, syscall.SIGSTOP) }
	direct.open = func(t *testing.T) { t.Helper(); direct.d.Signal(t, syscall.SIGCONT) }

	proxy := components.NewProxy(t, c.Address)
	conf := components.NewKubeconfig("https://"+proxy.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	layer4 := &away{name: "layer 4", d: c.daemonOf(t, node, conf)}
	layer4.close = func(*testing.T) { proxy.Down() }
	layer4.open = func(*testing.T) { proxy.Up() }

	web := e2e.NewNginx(t)
	layer7 := &away{name: "layer 7"}
	layer7.close = func(t *testing.T) { t.Helper(); web.Answer(t, "location / { return 503; }"); awaits(t, web, 503) }
	layer7.open = func(t *testing.T) {
		t.Helper()
		web.Answer(t, `location / {
			proxy_pass https://`+c.Address+`; proxy_http_version 1.1; proxy_set_header Authorization "Bearer `+components.User+`-token";
			proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 1h; gzip off;
		}`)
		awaits(t, web, 200)
	}
	layer7.open(t)
	layer7.d = c.daemonOf(t, node, components.NewKubeconfig(web.URL, nil))

	all := []*away{direct, layer4, layer7}
	for _, w := range all {
		w.f = e2e.Follow(t, w.d)
		w.f.Backwards = true
	}
	return all
}

// daemonOf starts podconfigd for a node with the kubeconfig.
func (c *cluster) daemonOf(t *testing.T, node string, conf *components.Config) *e2e.Daemon {
	t.Helper()
	path := filepath.Join(testutil.ShortDir(t), "kubeconfig")
	components.WriteKubeconfig(t, path, conf)
	return c.daemon(t, node, path)
}

// awaits waits until nginx answers with the code.
func awaits(t *testing.T, n *e2e.Nginx, code int) {
	t.Helper()
	testutil.Until(t, fmt.Sprintf("nginx answers %d", code), func() bool {
		resp, err := http.Get(n.URL + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == code
	})
	http.DefaultClient.CloseIdleConnections()
}

// revision returns the apiserver's newest revision.
func (c *cluster) revision(t *testing.T) int {
	t.Helper()
	list, err := c.Client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return atoi(t, list.ResourceVersion)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pass writes until the apiserver's revision is greater.
func (c *cluster) pass(t *testing.T, revision int) {
	t.Helper()
	for c.revision(t) <= revision {
		for range 20 {
			filler := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "filler-"}}
			if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), filler, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (c *cluster) do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settle waits until every daemon has the apiserver's pods.
func (c *cluster) settle(t *testing.T, node string, ways []*away) {
	t.Helper()
	for _, w := range ways {
		begin := time.Now()
		c.agrees(t, w.f, node)
		testutil.Until(t, w.name+": healthy", func() bool { s := api(t, w.d); return !s.Degraded && s.API.Connected })
		api := api(t, w.d).API
		t.Logf("%s: agrees after %v; %d relists, %d watch restarts", w.name, time.Since(begin).Round(time.Millisecond), api.Relists, api.WatchRestarts)
	}
}

// diverge changes pods after their backup, in every way, and waits until the daemons have
// the changes.
func (c *cluster) diverge(t *testing.T, step int) {
	t.Helper()
	c.pass(t, c.revision(t)+200)
	c.do(t, c.patch(t.Context(), "p0", fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, step)))
	c.do(t, c.delete(t.Context(), "p1", 0))
	c.do(t, c.patch(t.Context(), "p2", fmt.Sprintf(`{"status":{"phase":"Running","message":"%d"}}`, step), "status"))
	c.do(t, c.delete(t.Context(), "p3", 0))
	c.addPod(t, "p3", "node")
	c.addPod(t, fmt.Sprintf("new%d", step), "node")
}

// Tests that replace what the apiserver has share a third cluster, one after another.
func TestRestoredApiserver(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	c := startCluster(t)
	t.Run("another apiserver", func(t *testing.T) { isReplaced(t, c) })
	t.Run("back in time", func(t *testing.T) { goesBackInTime(t, c) })
}

// The pods of the daemon become equal to the apiserver's, also if the apiserver goes back
// in time, on any route.
func goesBackInTime(t *testing.T, c *cluster) {
	c.addNode(t, "node")
	for i := range 5 {
		c.addPod(t, fmt.Sprintf("p%d", i), "node")
	}
	backup := c.Backup(t)
	ways := c.ways(t, "node")
	c.settle(t, "node", ways)
	each := func(do func(w *away)) {
		for _, w := range ways {
			do(w)
		}
	}

	t.Run("a backup", func(t *testing.T) {
		c.diverge(t, 1)
		c.settle(t, "node", ways)
		c.Restore(t, backup)
		c.settle(t, "node", ways)
	})
	t.Run("a backup whose revisions pass the old ones", func(t *testing.T) {
		c.diverge(t, 2)
		c.settle(t, "node", ways)
		before := c.revision(t)
		each(func(w *away) { w.close(t) })
		c.Restore(t, backup)
		c.addPod(t, "other", "node")
		c.pass(t, before+100)
		each(func(w *away) { w.open(t) })
		c.settle(t, "node", ways)
	})
	t.Run("a backup, and a pod comes to the same revision", func(t *testing.T) { c.sameRevision(t, backup, ways) })
	t.Run("nothing", func(t *testing.T) {
		c.pass(t, c.revision(t)+1000)
		c.settle(t, "node", ways)
		c.Restore(t, "")
		c.addNode(t, "node")
		c.addPod(t, "p0", "node")
		c.addPod(t, "first", "node")
		c.settle(t, "node", ways)
	})
}

// sameRevision creates, after a restore, a pod with the same UID and resourceVersion as
// before the restore, and another status.
func (c *cluster) sameRevision(t *testing.T, backup string, ways []*away) {
	for attempt := range 5 {
		c.Restore(t, backup)
		c.pass(t, c.revision(t)+200)
		c.do(t, c.patch(t.Context(), "p2", `{"status":{"phase":"Running","message":"before"}}`, "status"))
		old, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "p2", metav1.GetOptions{})
		c.do(t, err)
		c.settle(t, "node", ways)
		before := c.revision(t)
		for _, w := range ways {
			w.close(t)
		}
		c.Restore(t, backup)
		now := old.DeepCopy()
		for i := 0; atoi(t, now.ResourceVersion) < atoi(t, old.ResourceVersion) || i == 0; i++ {
			c.do(t, c.patch(t.Context(), "p2", fmt.Sprintf(`{"status":{"phase":"Running","message":"after %d"}}`, i), "status"))
			now, err = c.Client.CoreV1().Pods("default").Get(t.Context(), "p2", metav1.GetOptions{})
			c.do(t, err)
		}
		c.pass(t, before+100)
		for _, w := range ways {
			w.open(t)
		}
		c.settle(t, "node", ways)
		if now.UID == old.UID && now.ResourceVersion == old.ResourceVersion && !strings.HasPrefix(old.Status.Message, "after") {
			return
		}
		t.Logf("attempt %d: revision %s rather than %s", attempt, now.ResourceVersion, old.ResourceVersion)
	}
	t.Error("the pod never came to the same revision")
}

// Another apiserver replaces the first at once. For a client, this is a cut connection. It has another CA: until the
// kubeconfig has it too, the pods stay.
func isReplaced(t *testing.T, one *cluster) {
	other := startCluster(t)
	for i, c := range []*cluster{one, other} {
		c.addNode(t, "replaced")
		c.addPod(t, "both", "replaced")
		c.addPod(t, fmt.Sprintf("only%d", i), "replaced")
	}
	one.pass(t, other.revision(t)+500)
	one.addPod(t, "late", "replaced")
	proxy := components.NewProxy(t, one.Address)
	conf := components.NewKubeconfig("https://"+proxy.Address, one.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	kubeconfig := filepath.Join(testutil.ShortDir(t), "kubeconfig")
	components.WriteKubeconfig(t, kubeconfig, conf)
	d := one.daemon(t, "replaced", kubeconfig)
	ways := []*away{{name: "proxy", d: d, f: e2e.Follow(t, d)}}
	ways[0].f.Backwards = true
	one.settle(t, "replaced", ways)
	proxy.Replace(other.Address)
	complains(t, d, "certificate signed by unknown authority")
	one.agrees(t, ways[0].f, "replaced")
	conf.Clusters["cluster"].CertificateAuthorityData = slices.Concat(one.Authority.PEM, other.Authority.PEM)
	components.WriteKubeconfig(t, kubeconfig, conf)
	other.settle(t, "replaced", ways)
	other.pass(t, one.revision(t)+100)
	proxy.Replace(one.Address)
	one.settle(t, "replaced", ways)
}
