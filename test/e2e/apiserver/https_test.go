package apiserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
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
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
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
				case <-time.After(testutil.Patience):
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
