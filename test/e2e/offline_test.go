package e2e

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// A node whose apiserver can't be reached starts with the pods that it last knew. They are
// marked, every API has them, and only the node's readiness waits. When the apiserver is
// back, a subscriber that was there before gets the differences and nothing else.
func TestStartsWithoutTheApiserver(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.addNode(t, "node")
	for _, name := range []string{"deleted", "same", "updated"} {
		c.addPod(t, name, "node")
	}
	kubeconfig := c.kubeconfig(t)
	args := []string{"--state-dir", filepath.Join(testutil.ShortDir(t), "state")}
	d := c.daemon(t, "node", kubeconfig, args...)
	s := d.watch(t, client.Options{})
	syncUp(t, s)

	c.APIServer.Kill(t)
	d = d.again(t, func() {}, append(args, "--kubeconfig", kubeconfig, "--hostname-override", "node")...)
	testutil.Until(t, "the static pods are seen", func() bool { return d.source(t, "file").Seen })
	for _, path := range []string{"/pods", "/api/v1/pods"} {
		code, header, body := d.ask(t, path)
		missing := slices.ContainsFunc([]string{"deleted", "same", "updated", "static-node"}, func(name string) bool { return !strings.Contains(body, `"`+name+`"`) })
		if code != http.StatusOK || header.Get("Podconfigd-Restored") != "api" || missing {
			t.Errorf("%s: %d, restored %q: %s", path, code, header.Get("Podconfigd-Restored"), body)
		}
	}
	if code, _, body := d.ask(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "api") || !strings.Contains(body, "restored") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if source := d.api(t); source.Seen || !source.Restored || source.Pods != 3 {
		t.Errorf("%+v", source)
	}

	c.APIServer.Start(t)
	c.AwaitAPIServer(t)
	c.do(t, c.delete(t.Context(), "deleted", 0))
	c.do(t, c.patch(t.Context(), "updated", `{"metadata":{"labels":{"a":"b"}}}`))
	c.addPod(t, "added", "node")
	var changes []string
	for !slices.Contains(changes, "ADD added") || !slices.Contains(changes, "UPDATE updated") { // all may be one set
		u := <-s.updates
		for _, p := range u.Pods {
			changes = append(changes, string(u.Op)+" "+p.Name)
		}
		if u.Reset {
			t.Errorf("the subscriber starts again: %s", u.Message)
		}
	}
	slices.Sort(changes)
	changes = slices.DeleteFunc(changes, func(c string) bool { return c == "DELETE deleted" }) // if the watch was there already
	if want := []string{"ADD added", "REMOVE deleted", "UPDATE updated"}; !slices.Equal(changes, want) {
		t.Errorf("the subscriber got %v, want %v", changes, want)
	}
	testutil.Until(t, "ready", func() bool { code, _, _ := d.ask(t, "/readyz"); return code == http.StatusOK })
}
