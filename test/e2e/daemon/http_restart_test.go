package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// An invalid item is held across restarts by kill -9, and so are all pods while nginx is gone.
func TestHTTPSourceAfterARestart(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	web := e2e.NewNginx(t)
	web.Put(t, "pods", podtest.List(podtest.Item("a", "1"), podtest.Item("b", "1")))
	dir := testutil.ShortDir(t)
	state := filepath.Join(dir, "state")
	url := strings.Replace(web.URL, "http://", "http://s3cret:s3cret@", 1) + "/pods?key=s3cret"
	args := []string{"--manifest-url", url, "--http-check-frequency", "1h", "--state-dir", state, "--manifest-url-header", "X-Key:s3cret"}
	d := e2e.Start(t, dir, args...)
	seen(t, d)

	again := func(change func()) {
		t.Helper()
		d = d.Again(t, change, args...)
		seen(t, d)
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
		again(func() {})
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

	for range 2 {
		again(func() { web.Put(t, "pods", podtest.List(podtest.Item("a", "2"), podtest.Item("b", ""))) })
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
