package apiserver

import (
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

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

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
	testutil.Long(t)
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
	// The open connection still has the old certificate. Its next request is authenticated again.
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
		case <-time.After(testutil.Patience):
			t.Fatalf("no update with the pod %s", want)
		}
	}
}

// Faults of the configuration name the flags.
func TestFaultsOfHTTPS(t *testing.T) {
	testutil.Long(t)
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
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
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
	conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true})
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
