package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// image returns the image of the pod with the name; empty if there is none.
func image(pods map[string]*v1.Pod, name string) string {
	for _, pod := range pods {
		if pod.Name == name {
			return pod.Spec.Containers[0].Image
		}
	}
	return ""
}

// An HTTP source on nginx, over TLS with a client certificate. After any fault, the last
// pods stay, the status has the error, and the next good answer counts.
func TestHTTPSourceOnNginx(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	authority, other := components.NewAuthority(t, "nginx"), components.NewAuthority(t, "another")
	web := e2e.NewNginx(t, authority)
	dir := testutil.ShortDir(t)
	put := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	issue := func(user string) {
		cert, key := authority.Issue(t, user)
		put("tls.crt", cert)
		put("tls.key", key)
	}
	issue("allowed")
	web.Put(t, "pods", podtest.List(podtest.Item("a", "1"), podtest.Item("b", "1")))
	d := e2e.Start(t, dir, "--manifest-url", web.URL+"/pods", "--http-check-frequency", "50ms",
		"--manifest-url-ca-file", put("ca.crt", authority.PEM),
		"--manifest-url-cert-file", filepath.Join(dir, "tls.crt"), "--manifest-url-key-file", filepath.Join(dir, "tls.key"),
		"--manifest-url-header", "Authorization:s3cret")
	f := e2e.Follow(t, d)
	f.Await(t, "both pods", func(pods map[string]*v1.Pod) bool { return len(pods) == 2 })

	version := "1"
	for _, fault := range []struct {
		name, says string
		begin, end func()
	}{
		{"an empty answer", "empty", func() { web.Put(t, "pods", "") }, nil},
		{"garbage", "neither", func() { web.Put(t, "pods", "a: [") }, nil},
		{"too much", "10", func() { web.Put(t, "pods", strings.Repeat(" ", 10<<20+1)) }, nil},
		{
			"503", "503 Service Temporarily Unavailable",
			func() { web.Answer(t, "location /pods { return 503; }") }, func() { web.Answer(t, "") },
		},
		{
			"a redirect loop", "the server redirected 10 times",
			func() { web.Answer(t, "location /pods { return 302 /pods; }") }, func() { web.Answer(t, "") },
		},
		{"another authority", "certificate signed by unknown authority", func() {
			put("ca.crt", other.PEM)
		}, func() { put("ca.crt", authority.PEM) }},
		{"another client", "403 Forbidden", func() { issue("stranger") }, func() { issue("allowed") }},
		{"nginx is gone", "connection refused", func() { web.Signal(syscall.SIGKILL) }, func() { web.Start(t) }},
		{"nginx does not answer", "no complete answer within 10s", func() { web.Signal(syscall.SIGSTOP) }, func() { web.Signal(syscall.SIGCONT) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			begin := time.Now()
			fault.begin()
			testutil.Until(t, "degraded because "+fault.says, func() bool {
				status := d.Source(t, "http")
				return status.Degraded && status.DegradedSince != nil && strings.Contains(status.LastError, fault.says)
			})
			t.Logf("%q after %v", d.Source(t, "http").LastError, time.Since(begin).Round(time.Millisecond))
			if n := len(f.State()); n != 2 {
				t.Errorf("%d pods are held, want 2", n)
			}
			if fault.end != nil {
				fault.end()
			}
			version += "1"
			web.Put(t, "pods", podtest.List(podtest.Item("a", version), podtest.Item("b", version)))
			f.Await(t, "the next version", func(pods map[string]*v1.Pod) bool {
				return image(pods, "a-node1") == version && image(pods, "b-node1") == version
			})
			testutil.Until(t, "healthy", func() bool { return !d.Source(t, "http").Degraded })
		})
	}

	// A bad item is held, the others count.
	web.Put(t, "pods", podtest.List(podtest.Item("a", "good"), podtest.Item("b", "")))
	f.Await(t, "the good one", func(pods map[string]*v1.Pod) bool {
		return image(pods, "a-node1") == "good" && image(pods, "b-node1") == version
	})
	// Only an empty list removes pods.
	web.Put(t, "pods", podtest.List())
	f.Await(t, "no pods", func(pods map[string]*v1.Pod) bool { return len(pods) == 0 })
	if log := d.Log.String(); strings.Contains(log, "s3cret") {
		t.Errorf("the log has a secret in it:\n%s", log)
	}
}
