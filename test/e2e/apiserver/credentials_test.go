package apiserver

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
)

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
			t.Parallel() // each waits for the next check of the files several times
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
