package apiserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
)

// account creates a service account with a role, and returns a token of it.
func (c *cluster) account(t *testing.T, name, role string) (token string) {
	t.Helper()
	ctx := t.Context()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bindRole(t, role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name})
	review, err := c.Client.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, new(authenticationv1.TokenRequest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Token
}

func (c *cluster) bindRole(t *testing.T, role string, subject rbacv1.Subject) {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: subject.Name + "-" + strings.ReplaceAll(role, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// overHTTPS asks the apiserver who clients are, and what they may do.
func overHTTPS(t *testing.T, c *cluster) {
	c.addNode(t, "https")
	c.addPod(t, "over-https", "https")
	kubeconfig := c.kubeconfig(t)
	dir := filepath.Dir(kubeconfig)
	for role, resources := range map[string][]string{"https-metrics": {"nodes/metrics"}, "https-pods": {"nodes/pods"}} {
		_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, c.Authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	d := c.daemon(t, "https", kubeconfig, append(e2e.Certificate(t, c.Authority, dir),
		"--listen", "https://127.0.0.1:0", "--client-ca-file", ca, "--authentication-token-webhook",
		"--authentication-token-webhook-cache-ttl", "1s", "--authorization-webhook-cache-authorized-ttl", "1s",
		"--authorization-webhook-cache-unauthorized-ttl", "1s")...)
	s := &e2e.Serving{Address: d.HTTPS(t), CA: c.Authority.PEM, Roots: x509.NewCertPool()}
	s.Roots.AppendCertsFromPEM(s.CA)
	tokens := map[string]string{
		"": "", "nobody": components.Nobody + "-token", "wrong": "wrong",
		"admin": c.account(t, "https-admin", "system:kubelet-api-admin"), "metrics": c.account(t, "https-metrics", "https-metrics"),
		"pods": c.account(t, "https-pods", "https-pods"),
	}
	await(t, s, d, tokens)
	t.Run("table", func(t *testing.T) { table(t, s, tokens) })
	t.Run("client certificate", func(t *testing.T) { clientCertificate(t, s, c) })
	t.Run("client-go", func(t *testing.T) { clientGo(t, s, d, tokens["pods"]) })
	t.Run("curl", func(t *testing.T) { curl(t, s, ca, tokens["pods"]) })
	t.Run("kubectl", func(t *testing.T) {
		out := strings.Join(strings.Fields(e2e.Kubectl{Server: s.Address}.Run(t, "--certificate-authority", ca, "--token", tokens["pods"], "auth", "whoami")), " ")
		for _, want := range []string{"Username system:serviceaccount:default:https-pods", "Groups [system:serviceaccounts system:serviceaccounts:default system:authenticated]"} {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl auth whoami: no %q in %s", want, out)
			}
		}
	})
	t.Run("gRPC", func(t *testing.T) { calls(t, s, tokens) })
	t.Run("status", func(t *testing.T) { showsUsers(t, s, d, tokens["pods"]) })
	t.Run("revoked", func(t *testing.T) {
		if err := c.Client.CoreV1().ServiceAccounts("default").Delete(t.Context(), "https-admin", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		admin := s.Client(t, 2)
		d.Await(t, "401 for a token of a deleted account", func() bool {
			code, _, _ := s.Get(t, admin, "GET", "/pods", tokens["admin"])
			return code == http.StatusUnauthorized
		})
	})
}

// await waits until the apiserver gives the pod, and until its RBAC knows the roles.
func await(t *testing.T, s *e2e.Serving, d *e2e.Daemon, tokens map[string]string) {
	t.Helper()
	one := s.Client(t, 2)
	d.Await(t, "the pods", func() bool {
		code, _, body := s.Get(t, one, "GET", "/pods", tokens["admin"])
		return code == http.StatusOK && strings.Contains(body, `"over-https"`)
	})
	for user, path := range map[string]string{"pods": "/pods", "metrics": "/metrics"} {
		d.Await(t, "the role of "+user, func() bool {
			code, _, _ := s.Get(t, one, "GET", path, tokens[user])
			return code == http.StatusOK
		})
	}
}

func table(t *testing.T, s *e2e.Serving, tokens map[string]string) {
	const forbidden = "Forbidden (user=system:serviceaccount:default:https-"
	for _, major := range []int{1, 2} {
		one := s.Client(t, major)
		for _, row := range []struct {
			user, method, path string
			code               int
			body               string
		}{
			{"admin", "GET", "/pods", 200, `"over-https"`},
			{"admin", "GET", "/metrics", 200, "podconfigd_"},
			{"admin", "GET", "/v1alpha1/status", 200, `"instance"`},
			{"admin", "GET", "/healthz", 200, "ok"},
			{"admin", "POST", "/v1alpha1/resync?namespace=default&name=unknown", 404, "unknown"},
			{"metrics", "GET", "/metrics", 200, "podconfigd_"},
			{"metrics", "GET", "/pods", 403, forbidden + "metrics, verb=get, resource=nodes, subresource(s)=[pods proxy])"},
			{"metrics", "GET", "/healthz", 403, forbidden + "metrics, verb=get, resource=nodes, subresource(s)=[healthz proxy])"},
			{"pods", "GET", "/pods", 200, `"over-https"`},
			{"pods", "GET", "/api/v1/pods", 200, `"over-https"`},
			{"pods", "GET", "/metrics", 403, "subresource(s)=[metrics])"},
			{"pods", "GET", "/v1alpha1/status", 403, "subresource(s)=[proxy])"},
			{"pods", "POST", "/v1alpha1/resync?namespace=default&name=over-https", 403, "verb=create, resource=nodes, subresource(s)=[proxy])"},
			{"nobody", "GET", "/pods", 403, "Forbidden (user=nobody, "},
			{"wrong", "GET", "/pods", 401, "Unauthorized"},
			{"", "GET", "/pods", 401, "Unauthorized"},
		} {
			t.Run(fmt.Sprintf("HTTP %d %s %s as %s", major, row.method, row.path, cmp.Or(row.user, "no user")), func(t *testing.T) {
				code, proto, body := s.Get(t, one, row.method, row.path, tokens[row.user])
				if code != row.code || proto != major || !strings.Contains(body, row.body) {
					t.Errorf("HTTP/%d: %d %.300s, want %d %s", proto, code, body, row.code, row.body)
				}
			})
		}
	}
}

func clientCertificate(t *testing.T, s *e2e.Serving, c *cluster) {
	c.bindRole(t, "https-pods", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "https-readers"})
	certOf := func(a *components.Authority, groups ...string) tls.Certificate {
		cert, key := a.Issue(t, "cert-user", groups...)
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reader := s.Client(t, 2, certOf(c.Authority, "https-readers"))
	for { // until RBAC knows the binding
		code, _, body := s.Get(t, reader, "GET", "/pods", "")
		if code == http.StatusOK {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%d %s", code, body)
		}
	}
	if code, _, body := s.Get(t, s.Client(t, 2, certOf(c.Authority)), "GET", "/pods", ""); code != http.StatusForbidden || !strings.Contains(body, "user=cert-user") {
		t.Errorf("without the group: %d %s", code, body)
	}
	// A certificate of another authority is not sent, because the server names its own.
	if code, _, _ := s.Get(t, s.Client(t, 1, certOf(components.NewAuthority(t, "other"), "system:masters")), "GET", "/pods", ""); code != http.StatusUnauthorized {
		t.Errorf("of another authority: %d", code)
	}
}

// clientGo uses unmodified client-go, which speaks HTTP/2 by default.
func clientGo(t *testing.T, s *e2e.Serving, d *e2e.Daemon, token string) {
	for name, protocols := range map[string][]string{"http2": nil, "http1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			conf := &rest.Config{Host: s.Address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA, NextProtos: protocols}}
			httpClient, err := rest.HTTPClientFor(conf)
			if err != nil {
				t.Fatal(err)
			}
			set, err := kubernetes.NewForConfigAndClient(conf, httpClient)
			if err != nil {
				t.Fatal(err)
			}
			list, err := set.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 2 {
				t.Errorf("%d pods, %v", len(list.Items), err)
			}
			seen := make(chan string, 10)
			factory := informers.NewSharedInformerFactory(set, 0)
			informer := factory.Core().V1().Pods().Informer()
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { seen <- o.(*v1.Pod).Name }}); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			factory.Start(stop)
			cache.WaitForCacheSync(stop, informer.HasSynced)
			fresh := "new-" + name
			d.Put(t, fresh, "image")
			for got := ""; got != fresh+"-https"; {
				select {
				case got = <-seen:
				case <-time.After(30 * time.Second):
					t.Fatalf("no event for the pod %s", fresh)
				}
			}
			close(stop)
			factory.Shutdown()
			httpClient.CloseIdleConnections()
			if err := os.Remove(filepath.Join(d.Dir, "manifests", fresh+".yaml")); err != nil {
				t.Fatal(err)
			}
			one := s.Client(t, 2)
			d.Await(t, "the pod to go", func() bool {
				_, _, body := s.Get(t, one, "GET", "/pods", token)
				return !strings.Contains(body, fresh)
			})
		})
	}
}

func curl(t *testing.T, s *e2e.Serving, ca, token string) {
	for _, version := range []string{"--http1.1", "--http2", "--http2-prior-knowledge"} {
		out, err := exec.CommandContext(t.Context(), "curl", "-sS", version, "--cacert", ca, "-H", "Authorization: Bearer "+token,
			"-w", "%{http_version} %{http_code}", "-o", "/dev/null", s.Address+"/pods").CombinedOutput()
		want := "2 200"
		if version == "--http1.1" {
			want = "1.1 200"
		}
		if err != nil || string(out) != want {
			t.Errorf("%s: %s, %v, want %s", version, out, err, want)
		}
	}
}

func calls(t *testing.T, s *e2e.Serving, tokens map[string]string) {
	conn, err := grpc.NewClient(strings.TrimPrefix(s.Address, "https://"), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.Roots})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	calls := podconfigd.NewPodConfigClient(conn)
	for user, want := range map[string]codes.Code{"pods": codes.OK, "metrics": codes.PermissionDenied, "wrong": codes.Unauthenticated, "": codes.Unauthenticated} {
		t.Run(cmp.Or(user, "no user"), func(t *testing.T) {
			ctx := t.Context()
			if user != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokens[user])
			}
			if _, err := calls.List(ctx, &podconfigd.ListRequest{}); status.Code(err) != want {
				t.Errorf("List: %v", err)
			}
			stream, err := calls.Watch(ctx, &podconfigd.WatchRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != want {
				t.Errorf("Watch: %v", err)
			}
			if _, err := calls.Resync(ctx, &podconfigd.ResyncRequest{Namespace: "default", Name: "over-https"}); status.Code(err) == codes.OK {
				t.Error("Resync is allowed")
			}
		})
	}
}

func showsUsers(t *testing.T, s *e2e.Serving, d *e2e.Daemon, token string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Address+"/v1alpha1/updates", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.Client(t, 2).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	state, err := d.Client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range state.Subscribers {
		if sub.User == "system:serviceaccount:default:https-pods" && strings.HasPrefix(sub.Address, "127.0.0.1:") && sub.PID == 0 {
			return
		}
	}
	t.Errorf("the subscribers are %+v", state.Subscribers)
}

// If the apiserver can't be asked, nobody is let in, and the client hears that it may try again.
func TestHTTPSWithoutTheApiserver(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := l.Addr().String()
	_ = l.Close()
	kubeconfig := filepath.Join(testutil.ShortDir(t), "kubeconfig")
	conf := components.NewKubeconfig("https://"+nowhere, components.NewAuthority(t, "x").PEM)
	conf.AuthInfos["user"].Token = "t"
	components.WriteKubeconfig(t, kubeconfig, conf)
	_, s := e2e.Local(t, "--kubeconfig", kubeconfig)
	for token, want := range map[string]int{"s3cret": http.StatusServiceUnavailable, "wrong": http.StatusUnauthorized} {
		t.Run(token, func(t *testing.T) {
			if code, _, body := s.Get(t, s.Client(t, 2), "GET", "/pods", token); code != want {
				t.Errorf("%s: %d %s", token, code, body)
			}
		})
	}
}

// Credentials and certificates are reloaded. Open streams go on.
func TestHTTPSReloads(t *testing.T) {
	t.Parallel()
	d, s := e2e.Local(t, "--authorization-mode", "AlwaysAllow")
	old := s.Client(t, 2)
	d.Await(t, "ready", func() bool {
		code, _, _ := s.Get(t, old, "GET", "/readyz", "s3cret")
		return code == http.StatusOK
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	remote, err := client.NewForConfig(client.Config{Server: s.Address, BearerToken: "s3cret", TLSClientConfig: client.TLSClientConfig{CAFile: e2e.CAFile(t, d.Dir, s.CA)}})
	if err != nil {
		t.Fatal(err)
	}
	updates := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for u, err := range remote.Updates(ctx, client.Options{}) {
			if err != nil {
				return
			}
			for _, p := range u.Pods {
				updates <- p.Name
			}
		}
	}()
	defer func() { cancel(); <-done }()
	d.Put(t, "first", "image")
	expectName(t, updates, "first-node1")

	next := components.NewAuthority(t, "next")
	e2e.Certificate(t, next, d.Dir)
	if err := os.WriteFile(filepath.Join(d.Dir, "tokens"), []byte("other,bob,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rotated := &e2e.Serving{Address: s.Address, CA: next.PEM, Roots: x509.NewCertPool()}
	rotated.Roots.AppendCertsFromPEM(next.PEM)
	d.Await(t, "the new certificate and the new token", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Address+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer other")
		resp, err := rotated.Client(t, 2).Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	// The open connection has the old certificate. Its next request is authenticated anew.
	if code, _, _ := s.Get(t, old, "GET", "/readyz", "s3cret"); code != http.StatusUnauthorized {
		t.Errorf("the old token on the old connection: %d", code)
	}
	d.Put(t, "second", "image")
	expectName(t, updates, "second-node1")
}

func expectName(t *testing.T, names <-chan string, want string) {
	t.Helper()
	for {
		select {
		case name := <-names:
			if name == want {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no update with the pod %s", want)
		}
	}
}

// Faults of the configuration name the flags.
func TestFaultsOfHTTPS(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	for flags, want := range map[string]string{
		"--listen=https://127.0.0.1:0":                                               "--authorization-mode: the default Webhook requires --kubeconfig",
		"--listen=https://127.0.0.1:0 --authorization-mode=AlwaysAllow":              "--listen: https requires a way to authenticate clients: set --client-ca-file",
		"--listen=https://127.0.0.1:0 --authorization-mode=allow":                    `--authorization-mode: "allow" is unknown: expected Webhook or AlwaysAllow`,
		"--listen=https://127.0.0.1:0 --authorization-mode=Webhook --anonymous-auth": "--authorization-mode: Webhook requires --kubeconfig",
		"--listen=https://127.0.0.1:0 --authentication-token-webhook":                "--authentication-token-webhook: requires --kubeconfig",
		"--tls-cert-file=x":        "--tls-cert-file: requires --tls-private-key-file",
		"--tls-private-key-file=x": "--tls-private-key-file: requires --tls-cert-file",
		"--listen=https://127.0.0.1:0 --authorization-mode=AlwaysAllow --client-ca-file=/no":                                            "--client-ca-file: reading /no: open /no: no such file",
		"--listen=https://127.0.0.1:0 --authorization-mode=AlwaysAllow --token-auth-file=/no":                                           "--token-auth-file: reading /no: open /no: no such file",
		"--listen=https://127.0.0.1:0 --authorization-mode=AlwaysAllow --anonymous-auth --tls-cert-file=/no --tls-private-key-file=/no": "--tls-cert-file: reading /no",
		"--listen=http://192.0.2.1:80": `--listen: "http://192.0.2.1:80": http is only for loopback addresses`,
		"--listen=https://192.0.2.1:1 --authorization-mode=AlwaysAllow --anonymous-auth": "--listen: listening on https://192.0.2.1:1: bind: cannot assign requested address",
	} {
		t.Run(flags, func(t *testing.T) {
			args := append([]string{"--pod-manifest-path", dir, "--socket", filepath.Join(dir, "s")}, strings.Fields(flags)...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			out, err := exec.CommandContext(ctx, e2e.Binary, args...).CombinedOutput()
			cancel()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v, %s, want %s", flags, err, out, want)
			}
		})
	}
}

// A daemon without a certificate makes one, and says which.
func TestSelfSigned(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	d := &e2e.Daemon{Dir: dir}
	d.Mkdir(t)
	d = e2e.Start(t, dir, "--listen", "https://localhost:0", "--anonymous-auth", "--authorization-mode", "AlwaysAllow")
	address := d.HTTPS(t)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its certificate is what is tested
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	for _, name := range []string{"node1", "localhost", "127.0.0.1"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"Made a self-signed certificate", fmt.Sprintf("notAfter=%q", leaf.NotAfter.Format("2006")), "everybody who can connect"} {
		if want = strings.TrimSuffix(want, `"`); !strings.Contains(d.Log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}
