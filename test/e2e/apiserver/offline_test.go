package apiserver

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A node whose apiserver can't be reached starts with the pods that it last knew. They are
// marked, every API has them, and only the node's readiness waits. When the apiserver is
// back, a subscriber that was there before gets the differences and nothing else.
func startsWithoutTheApiserver(t *testing.T, c *cluster) {
	c.addNode(t, "offline")
	for _, name := range []string{"deleted", "same", "updated"} {
		c.addPod(t, name, "offline")
	}
	kubeconfig := c.kubeconfig(t)
	args := []string{"--state-dir", filepath.Join(testutil.ShortDir(t), "state")}
	d := c.daemon(t, "offline", kubeconfig, args...)
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)

	c.APIServer.Kill(t)
	d = d.Again(t, func() {}, append(args, "--kubeconfig", kubeconfig, "--hostname-override", "offline")...)
	testutil.Until(t, "the static pods are seen", func() bool { return d.Source(t, "file").Seen })
	for _, path := range []string{"/pods", "/api/v1/pods"} {
		code, header, body := d.Ask(t, path)
		missing := slices.ContainsFunc([]string{"deleted", "same", "updated", "static-offline"}, func(name string) bool { return !strings.Contains(body, `"`+name+`"`) })
		if code != http.StatusOK || header.Get("Podconfigd-Restored") != "api" || missing {
			t.Errorf("%s: %d, restored %q: %s", path, code, header.Get("Podconfigd-Restored"), body)
		}
	}
	if code, _, body := d.Ask(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "api") || !strings.Contains(body, "restored") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if source := api(t, d); source.Seen || !source.Restored || source.Pods != 3 {
		t.Errorf("%+v", source)
	}

	c.APIServer.Start(t)
	c.AwaitAPIServer(t)
	c.do(t, c.delete(t.Context(), "deleted", 0))
	c.do(t, c.patch(t.Context(), "updated", `{"metadata":{"labels":{"a":"b"}}}`))
	c.addPod(t, "added", "offline")
	var changes []string
	for !slices.Contains(changes, "ADD added") || !slices.Contains(changes, "UPDATE updated") { // all may be one set
		u := <-s.Updates
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
	testutil.Until(t, "ready", func() bool { code, _, _ := d.Ask(t, "/readyz"); return code == http.StatusOK })
}
