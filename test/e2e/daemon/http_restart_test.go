package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// seen waits until the HTTP source has sent a set, and returns the verdicts on its items.
func seen(t *testing.T, d *e2e.Daemon) map[string]v1alpha1.ManifestState {
	t.Helper()
	var status v1alpha1.SourceStatus
	testutil.Until(t, "the HTTP source is seen", func() bool {
		status = d.Source(t, "http")
		return status.Seen && len(status.HTTP.Manifests) > 0
	})
	verdicts := make(map[string]v1alpha1.ManifestState)
	for _, m := range status.HTTP.Manifests {
		verdicts[m.Name] = m.State
	}
	return verdicts
}

// putOld makes nginx serve the content as a file that is old enough for its ETag.
func putOld(t *testing.T, n *e2e.Nginx, name, content string) {
	t.Helper()
	n.Put(t, name, content)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(n.Dir, "www", name), old, old); err != nil {
		t.Fatal(err)
	}
}

// After kill -9, the first request has the ETag of the last answer, and a 304 makes the
// restored pods the set. An invalid item is held across restarts, and so are all pods while
// nginx is gone.
func TestHTTPSourceAfterARestart(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	web := e2e.NewNginx(t)
	putOld(t, web, "pods", podtest.List(podtest.Item("a", "1"), podtest.Item("b", "1")))
	dir := testutil.ShortDir(t)
	state := filepath.Join(dir, "state")
	url := strings.Replace(web.URL, "http://", "http://s3cret:s3cret@", 1) + "/pods?key=s3cret"
	args := []string{"--manifest-url", url, "--http-check-frequency", "1h", "--state-dir", state, "--manifest-url-header", "X-Key:s3cret"}
	d := e2e.Start(t, dir, args...)
	seen(t, d)

	asked := 1
	// logged waits until nginx has logged the last request, and returns its line.
	logged := func() (line string) {
		t.Helper()
		testutil.Until(t, "the last request is logged", func() bool {
			lines := slices.DeleteFunc(requests(t, web), func(l string) bool { return !strings.Contains(l, `"GET /pods`) })
			if len(lines) < asked {
				return false
			}
			line = lines[asked-1]
			return true
		})
		return line
	}
	// again kills and starts the daemon. It returns the line of the first request.
	again := func(change func()) string {
		t.Helper()
		d = d.Again(t, func() {
			logged() // nginx logs a request after its answer
			change()
		}, args...)
		asked++ // once, because the period is an hour
		seen(t, d)
		return logged()
	}
	expect := func(want ...string) {
		t.Helper()
		body := body(t, d)
		for _, image := range want {
			if !strings.Contains(body, `"image":"`+image+`"`) {
				t.Errorf("no image %s in %s", image, body)
			}
		}
	}

	for range 2 {
		if line := again(func() {}); !strings.Contains(line, `" 304 0 "`) || strings.HasSuffix(line, `"-"`) {
			t.Errorf("the first request is %s", line)
		}
		expect("1")
		if verdicts := seen(t, d); verdicts["a-node1"] != v1alpha1.ManifestAccepted || verdicts["b-node1"] != v1alpha1.ManifestAccepted {
			t.Errorf("the verdicts are %v", verdicts)
		}
	}
	if err := filepath.WalkDir(state, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "s3cret") {
			t.Errorf("%s has a secret of the URL or the header", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}

	// A 304 would hide that b is invalid. So the first requests have no condition, except
	// the one with the ETag from before.
	for range 2 {
		line := again(func() { putOld(t, web, "pods", podtest.List(podtest.Item("a", "2"), podtest.Item("b", ""))) })
		if !strings.Contains(line, `" 200 `) {
			t.Errorf("the first request is %s", line)
		}
		expect("1", "2")
		if verdicts := seen(t, d); verdicts["b-node1"] != v1alpha1.ManifestHeld {
			t.Errorf("the verdicts are %v", verdicts)
		}
	}

	d = d.Again(t, func() { web.Signal(syscall.SIGKILL) }, args...)
	expect("1", "2")
	testutil.Until(t, "degraded", func() bool { status := d.Source(t, "http"); return status.Degraded && status.Restored && !status.Seen })
	expect("1", "2")
}
