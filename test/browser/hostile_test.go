package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// hostiles are texts in every field of a pod that an apiserver may fill with any text.
var hostiles = map[string]string{
	"markup":     `"'><img src=x onerror=window.pwned=1><svg onload=window.pwned=1></script><script>window.pwned=1</script>`,
	"template":   "${window.pwned=1} {{constructor.constructor('window.pwned=1')()}} javascript:window.pwned=1",
	"control":    "a\x01\x1b[31m\x7f\u0085\u2028b\r\n\tc",
	"direction":  "a\u202egnp.exe\u2066b\u061cc\u200fd",
	"blank":      "a\u00ad\u200b\u3164\u115f\uffa0\u034f\ufe0f\U000e0041\u00a0b",
	"proto":      "__proto__",
	"property":   "constructor",
	"long":       strings.Repeat("W", 20_000),
	"marks":      "Z" + strings.Repeat("\u0335\u0489", 500),
	"words":      strings.Repeat("word ", 4_000),
	"empty":      "",
	"arrow":      "a: b → c → d",
	"many lines": strings.Repeat("line\n", 1_000),
}

// hostilePod is a pod that has a text wherever it can have one.
func hostilePod(uid, text string) map[string]any {
	type object = map[string]any
	const at = "2026-01-02T03:04:05Z"
	key := text[:min(len(text), 200)]
	container := object{"name": text, "image": text, "command": []string{text}, "args": []string{text}, "ports": []object{{"name": text, "containerPort": 80, "protocol": text}}}
	ended := object{"reason": text, "message": text, "exitCode": 1, "finishedAt": at, "containerID": text}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"ownerReferences": []object{{"apiVersion": "apps/v1", "kind": text, "name": text, "uid": uid, "controller": true}},
			"name":            "pod-" + uid + key, "namespace": "default", "uid": uid, "resourceVersion": "5", "creationTimestamp": at,
			"labels": object{key: text}, "annotations": object{key: text, "__proto__": text},
		},
		"spec": object{"nodeName": "node1", "containers": []object{container}, "initContainers": []object{container}},
		"status": object{
			"phase": text, "reason": text, "message": text, "podIP": text, "podIPs": []object{{"ip": text}}, "qosClass": text,
			"conditions":            []object{{"type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": at}},
			"initContainerStatuses": []object{{"name": text, "ready": true, "started": true, "restartCount": 0, "image": text, "imageID": text, "state": object{"terminated": object{"exitCode": 0}}}},
			"containerStatuses": []object{{
				"name": text, "ready": false, "restartCount": 3, "image": text, "imageID": text, "containerID": text,
				"state": object{"waiting": object{"reason": text, "message": text}}, "lastState": object{"terminated": ended},
			}},
		},
	}
}

// hostileApiserver has a pod for each text.
func hostileApiserver(t *testing.T) (kubeconfig string) {
	t.Helper()
	var pods []map[string]any
	for name, text := range hostiles {
		pods = append(pods, hostilePod(strings.ReplaceAll(name, " ", "-"), text))
	}
	return apiserver(t, pods)
}

// apiserver is an apiserver with pods of node1.
func apiserver(t *testing.T, pods []map[string]any) (kubeconfig string) {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(code int, object map[string]any) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(object)
		}
		query := r.URL.Query()
		switch {
		case r.URL.Path == "/api/v1/nodes/node1":
			answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node1", "uid": "u"}})
		case query.Has("sendInitialEvents"):
			answer(http.StatusUnprocessableEntity, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"})
		case query.Has("watch"):
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-done:
			}
		default:
			answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"resourceVersion": "9"}, "items": pods})
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// invisible are the characters that the page must not show.
const invisible = `/(?![ \t\n])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu`

// Whatever an apiserver, a manifest server or a subscriber chooses is text on the page: it runs nothing, hides nothing, and does
// not make the page wide.
func TestHostileTexts(t *testing.T) {
	kubeconfig := hostileApiserver(t)
	d := newDaemon(t, "--kubeconfig", kubeconfig, "--owners")
	for name, text := range hostiles {
		go func() { // a subscriber chooses its name
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1alpha1/updates", nil)
			if err != nil {
				return
			}
			req.Header.Set("User-Agent", strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return -1
				}
				return r
			}, text[:min(len(text), 2000)])+name)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
	}
	p := newTab(t)
	p.open(d.url)
	p.until(has("#pod-count", fmt.Sprint(len(hostiles))))
	p.until(fmt.Sprintf(`document.querySelectorAll('#subscribers tr').length >= %d`, len(hostiles)))
	for name := range hostiles {
		name = strings.ReplaceAll(name, " ", "-")
		p.do(chromedp.SetValue("#filter", "pod-"+name, chromedp.ByQuery))
		p.eval(`document.querySelector('#filter').dispatchEvent(new Event('input'))`, nil)
		p.until(row("pod-" + name))
		p.eval(row("pod-"+name)+`.click()`, nil)
		p.until(has("#detail-title", "pod-"+name))
		p.openParts()
		if n := p.number(`[...document.documentElement.textContent.matchAll(` + invisible + `)].length`); n != 0 {
			t.Errorf("%s: the page shows %v characters that hide or reorder others", name, n)
		}
		if width := p.number(`Math.max(document.documentElement.scrollWidth, document.querySelector('#detail').getBoundingClientRect().right)`); width > 1440 {
			t.Errorf("%s: the page is %v pixels wide", name, width)
		}
		p.eval(`document.querySelector('#detail').close()`, nil)
	}
	p.until(`document.querySelectorAll('img').length === 1 && document.querySelectorAll('script').length === 1 && document.querySelectorAll('svg').length === 0`)
	p.until(`window.pwned === undefined && ({}).a === undefined`)
	if n := p.number(`Math.max(...[...document.querySelectorAll('.rows .row > div')].map(e => e.textContent.length))`); n > 2000 {
		t.Errorf("a cell of a table has %v characters", n) // each drawing would take long
	}
	p.clean()
}
