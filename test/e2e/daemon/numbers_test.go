package daemon

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// With the largest value of every number, the daemon works as usual: no computation
// overflows.
func TestTheLargestNumbers(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError) // so that the source waits with backoff
			return
		}
		_, _ = w.Write([]byte(podtest.List(podtest.Item("u", "1"))))
	}))
	t.Cleanup(server.Close)
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "a", "image")
	d = e2e.Start(t, d.Dir, "--manifest-url", server.URL, "--http-check-frequency=24h", "--file-check-frequency=24h",
		"--sync-frequency=24h", "--pleg-relist-period=24h", "--pleg-relist-threshold=48h", "--container-runtime-endpoint=unix:///nowhere",
		"--max-subscribers=1048576", "--max-subscribers-per-process=1048576",
		"--journal-max-updates=16777216", "--journal-max-bytes=1099511627776")
	s := d.Watch(t, client.Options{Ops: []v1alpha1.Op{v1alpha1.OpAll}, Source: "file"})
	e2e.SyncUp(t, s)
	for _, name := range []string{"b", "c", "d"} {
		d.Put(t, name, "image")
		s.Expect(t, "ADD "+name+"-node1") // without permanent SYNCs
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests to the manifest URL, want one that fails and one more", n)
	}
}
