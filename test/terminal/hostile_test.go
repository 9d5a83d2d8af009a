package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// An escape sequence in a name or a message never reaches the terminal, on no pane.
func TestEscapeSequencesDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"}, "--state-dir", t.TempDir())
	term := newTerminal(t, 200, 50, nil, "--socket", d.socket)
	term.shows("default/web-node1")
	output := filepath.Join(testutil.ShortDir(t), "output")
	term.tmux("pipe-pane", "cat > "+output)

	const title = "\x1b]0;owned\x07"
	d.write("a"+title+"\x1b[2Jb.yaml", "kind: [\n")
	d.write("env.yaml", strings.Replace(podManifest("env", "nginx"), "metadata: {name: env}",
		`metadata: {name: env, annotations: {note: "\e]0;owned\a\e[2J\u202egnp \u009b31m"}}`, 1))
	d.write("bad.yaml", strings.Replace(podManifest("bad", "nginx"), "containers:", `restartPolicy: "\e]0;owned\a\e[31m"`+"\n  containers:", 1))
	term.shows(`a\x1b]0;owned\a\x1b[2Jb.yaml`, "default/env-node1", "bad.yaml")
	for _, keys := range [][]string{{"2", "Enter"}, {"2", "Down", "Enter"}, {"3", "Enter"}, {"4", "Enter"}} {
		term.press(keys...)
		term.shows("esc back")
		if keys[0] == "3" {
			for page, text := range map[string]string{"y": "owned", "h": "ADD  ", "d": "owned"} {
				term.press(page)
				term.shows(text)
			}
		}
		term.back()
	}
	term.press("C-c")
	term.ends(0)
	raw, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{title, "\x1b]0;owned", "\u202e", "\u009b"} {
		if bytes.Contains(raw, []byte(bad)) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
}

func TestWideCharactersKeepTheColumns(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"})
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	d.write("日本語の名前-👩‍🚀.yaml", "kind: [\n")
	d.write("plain.yaml", "kind: [\n")
	term.shows("日本語の名前", "plain.yaml", "Rejected")
	for line := range strings.Lines(term.screen()) {
		if !strings.Contains(line, "Rejected") {
			continue
		}
		// tmux counts a wide character as two cells, as do the columns.
		before, _, _ := strings.Cut(line, "Rejected")
		width := 0
		for _, r := range before {
			width++
			if r > 0x2e80 {
				width++
			}
		}
		if want := len("  ") + 12 + len("-👩") - 2 + len(`\u200d`) + len("🚀") - 2 + len(".yaml") + 2; width != want {
			t.Errorf("Rejected is in column %d, want %d: %q", width, want, line)
		}
	}
}

// With 5,000 pods, the view answers keys, and follows changes.
func TestManyPods(t *testing.T) {
	t.Parallel()
	const pods = 5000
	changed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		image := "nginx:1.27"
		select {
		case <-changed:
			image = "nginx:1.28"
		default:
		}
		items := make([]any, pods)
		for i := range items {
			items[i] = map[string]any{
				"metadata": map[string]any{"name": fmt.Sprintf("pod%04d", i), "namespace": "many"},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}},
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": items})
	}))
	defer server.Close()
	d := startDaemon(t, []string{"web"}, "--manifest-url", server.URL, "--http-check-frequency", "1s")
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	term.shows("Pods 5001", "default/web-node1")
	begin := time.Now()
	term.press("G")
	term.shows("many/pod4999-node1")
	term.press("/", "4", "2", "4", "2")
	term.shows("Pods 1 of 5001", "many/pod4242-node1")
	t.Logf("two keys took %v", time.Since(begin))
	close(changed)
	term.shows("nginx:1.28") // most removed pods are not kept, so that it does not say recreated
	term.press("Enter", "Enter")
	term.shows("image: nginx:1.28")
}
