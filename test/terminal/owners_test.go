package terminal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// ownedPods is an apiserver with two pods of a StatefulSet, and one of nothing.
func ownedPods(t *testing.T) (kubeconfig string) {
	t.Helper()
	type object = map[string]any
	pod := func(name string, owners ...object) object {
		return object{
			"metadata": object{"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5", "ownerReferences": owners},
			"spec":     object{"nodeName": "node1", "containers": []object{{"name": "c", "image": "i"}}}, "status": object{"phase": "Running"},
		}
	}
	db := object{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		refuse := func(code int, reason string) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason})
		}
		switch query := r.URL.Query(); {
		case r.URL.Path == "/api/v1/nodes/node1":
			_ = json.NewEncoder(w).Encode(object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "node1", "uid": "u"}})
		case r.URL.Path != "/api/v1/pods":
			refuse(http.StatusNotFound, "NotFound")
		case query.Has("sendInitialEvents"):
			refuse(http.StatusUnprocessableEntity, "Invalid")
		case query.Has("watch"):
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-done:
			}
		default:
			_ = json.NewEncoder(w).Encode(object{"apiVersion": "v1", "kind": "PodList", "metadata": object{"resourceVersion": "9"}, "items": []object{
				pod("db-1", db), pod("alone"), pod("db-0", db),
			}})
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	kubeconfig = filepath.Join(testutil.ShortDir(t), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// With --owners, the pods are below the top of their owners.
func TestPodsBelowTheirOwners(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"}, "--kubeconfig", ownedPods(t), "--owners")
	term := newTerminal(t, 120, 40, nil, "--socket", d.socket)
	term.shows("Pods 4 ", "no owner", "  shop/alone", "node/node1", "  default/web-node1", "statefulset/db in shop", "2 pods", "  shop/db-0")
	order := regexp.MustCompile(`(?s)no owner +1 pod.*shop/alone.*node/node1 +1 pod.*web-node1.*statefulset/db in shop +2 pods.*db-0.*db-1`)
	if screen := term.screen(); !order.MatchString(screen) {
		t.Errorf("the screen:\n%s", screen)
	}
	term.press("/")
	term.press("statefulset/db", "Enter")
	term.shows("Pods 2 of 4")
	term.hides("node/node1")
	term.press("Down", "Enter")
	term.shows("Pod shop/db-0")
	term.press("q")
	term.back()
}
