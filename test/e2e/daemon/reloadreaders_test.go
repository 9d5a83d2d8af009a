package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// images has the image of each pod that a reader holds, by name.
type images struct {
	mu   sync.Mutex
	held map[string]string
	err  error
}

func (s *images) set(name, image string, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = make(map[string]string)
	}
	if s.held[name] = image; !there {
		delete(s.held, name)
	}
}

func (s *images) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.held)
}

// expect waits until the reader holds the pods. It fails if the reader has ended.
func (s *images) expect(t *testing.T, who string, want map[string]string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if fmt.Sprint(s.held) != fmt.Sprint(want) || s.err != nil {
			return fmt.Errorf("%s holds %v, want %v; its stream has ended with %s", who, s.held, want, fmt.Sprint(s.err))
		}
		return nil
	})
}

func imageOf(pod *v1.Pod) string { return pod.Spec.Containers[0].Image }

// watchOverHTTPS watches the pods in the Kubernetes API, with one request.
func (s *images) watchOverHTTPS(ctx context.Context, serving *e2e.Serving, c *http.Client, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, serving.Address+"/api/v1/pods?watch=true", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Type   string
			Object v1.Pod
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.Object.Name == "" {
			return fmt.Errorf("%w in %s", err, lines.Text())
		}
		s.set(event.Object.Name, imageOf(&event.Object), event.Type != "DELETED")
	}
	return fmt.Errorf("the watch has ended: %w", lines.Err())
}

// read reads the stream. It may start again if the rules of the reader change.
func (s *images) read(ctx context.Context, c *client.Client) error {
	for u, err := range c.Updates(ctx, client.Options{}) {
		if err != nil {
			return err
		}
		if u.Reset {
			s.clear()
		}
		for _, pod := range u.Pods {
			s.set(pod.Name, imageOf(pod), u.Op != "REMOVE")
		}
	}
	return ctx.Err()
}

// rotate replaces the certificate and its key, one after the other, and returns the certificate.
func rotate(t *testing.T, a *components.Authority, dir string) *x509.Certificate {
	t.Helper()
	e2e.Certificate(t, a, dir)
	data, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// replaceFile replaces a file in one step.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Certificates, tokens, access rules and sources change many times while clients read. A client whose rules stay loses
// nothing and starts never again, one whose rules change holds what they show, and new connections get the newest
// certificate, by the newest tokens.
func TestReloadsWhileClientsRead(t *testing.T) {
	t.Parallel()
	const rounds = 6 // each view with and without the source
	config := filepath.Join(testutil.ShortDir(t), "config.yaml")
	var manifest atomic.Pointer[string]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, *manifest.Load())
	}))
	defer other.Close()
	views := []string{"full", "redacted", "metadata"}
	configure := func(round int) {
		text := fmt.Sprintf("apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\naccess:\n- {uids: [%d], view: full}\n"+
			"- {authenticatedUsers: [alice], view: full}\n- {authenticatedUsers: [bob], view: %s}\n", os.Geteuid(), views[round%len(views)])
		if round%2 == 1 {
			text += "staticPodURL: " + other.URL + "\nhttpCheckFrequency: 100ms\n"
		}
		replaceFile(t, config, text)
	}
	configure(0)
	d, s := e2e.Local(t, "--config", config, "--authorization-mode", "AlwaysAllow")
	authority := components.NewAuthority(t, "next")
	bundle := append(append([]byte{}, s.CA...), authority.PEM...)
	s.Roots.AppendCertsFromPEM(authority.PEM)
	tokens := func(round int) {
		replaceFile(t, filepath.Join(d.Dir, "tokens"), fmt.Sprintf("s3cret,alice,1\nbobs,bob,2\ncarols-%d,alice,3\n", round))
	}
	tokens(0)
	fresh := func(token string) (code int, cert *x509.Certificate) {
		t.Helper()
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Roots, VerifyConnection: func(state tls.ConnectionState) error {
			cert = state.PeerCertificates[0]
			return nil
		}}, DisableKeepAlives: true}}
		code, _, _ = s.Get(t, c, http.MethodGet, "/pods", token)
		return code, cert
	}
	testutil.Until(t, "the tokens count", func() bool { code, _ := fresh("bobs"); return code == http.StatusOK })

	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	onNet := func(token string) *client.Client {
		c, err := client.NewForConfig(client.Config{Server: s.Address, BearerToken: token, TLSClientConfig: client.TLSClientConfig{CAData: bundle}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e2e.Follow(t, d)                                    // on the socket, without a reset
	e2e.Follow(t, &e2e.Daemon{Client: onNet("s3cret")}) // on the address, without a reset
	var alice, alice2, bob images
	for who, run := range map[*images]func() error{
		&alice:  func() error { return alice.watchOverHTTPS(ctx, s, s.Client(t, 1), "s3cret") },
		&alice2: func() error { return alice2.watchOverHTTPS(ctx, s, s.Client(t, 2), "s3cret") },
		&bob:    func() error { return bob.read(ctx, onNet("bobs")) },
	} {
		readers.Go(func() {
			err := run()
			who.mu.Lock()
			defer who.mu.Unlock()
			who.err = err
		})
	}
	d.Put(t, "steady", "steady")
	want := map[string]string{"steady-node1": "steady"}
	alice.expect(t, "alice", want)
	for round := 1; round <= rounds; round++ {
		cert := rotate(t, authority, d.Dir)
		tokens(round)
		d.Put(t, "edited", fmt.Sprint(round))
		manifest.Store(new(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec: {containers: [{name: c, image: \"%d\"}]}\n", round)))
		configure(round)
		d.Signal(t, syscall.SIGHUP)

		if code, _ := fresh("s3cret"); code != http.StatusOK {
			t.Errorf("round %d: a new connection of alice gets %d", round, code)
		}
		testutil.Until(t, "the newest certificate and tokens count", func() bool {
			code, got := fresh(fmt.Sprint("carols-", round))
			return code == http.StatusOK && got.Equal(cert)
		})
		if code, _ := fresh(fmt.Sprint("carols-", round-1)); code != http.StatusUnauthorized && code != http.StatusTooManyRequests { // too many failures
			t.Errorf("round %d: a token that is no longer in the file gets %d", round, code)
		}
		want = map[string]string{"steady-node1": "steady", "edited-node1": fmt.Sprint(round)}
		if round%2 == 1 {
			want["other-node1"] = fmt.Sprint(round)
		}
		alice.expect(t, "alice", want)
		alice2.expect(t, "alice over HTTP/2", want)
		if views[round%len(views)] == "metadata" {
			for name := range want {
				want[name] = ""
			}
		}
		bob.expect(t, "bob", want)
	}
	if n := strings.Count(d.Log.String(), "Could not reload"); n > 0 {
		t.Errorf("%d reloads failed", n)
	}
}
