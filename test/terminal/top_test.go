package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// colorSequence is an escape sequence that sets a color.
var colorSequence = regexp.MustCompile("\x1b\\[[0-9;]*\\b([34]8;|3[0-7]|4[0-7]|9[0-7]|10[0-7])")

func TestTheViewShowsTheDaemon(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		for _, noColor := range []string{"", "1"} {
			t.Run(fmt.Sprintf("%dx%d,NO_COLOR=%s", size[0], size[1], noColor), func(t *testing.T) {
				t.Parallel()
				d := startDaemon(t, []string{"web", "shop"})
				term := newTerminal(t, size[0], size[1], []string{"NO_COLOR=" + noColor}, "--socket", d.socket)
				term.shows("podconfigd  node1  ready  2 pods", "Sources 1", "file    ok", "Manifests 2", "Pods 2",
					"default/web-node1", "default/shop-node1", "Pending", "no updates yet", "Subscribers 1", "(this view)", "q quit")

				d.write("broken.yaml", "kind: [\n")
				term.shows("broken.yaml", "Rejected", "1 not accepted", "broken.yaml:1: neither")
				d.write("web.yaml", podManifest("web", "nginx:1.28"))
				term.shows("REMOVE", "recreated: spec.containers[main]", "█")

				if got := colorSequence.MatchString(term.colored()); got != (noColor == "") {
					t.Errorf("there are colors: %t", got)
				}
				screen := term.screen()
				if n := len(strings.Split(screen, "\n")); n != size[1] {
					t.Errorf("the screen has %d lines, want %d", n, size[1])
				}
				term.press("q")
				term.ends(0)
				term.hides("Subscribers")
			})
		}
	}
}

func TestKeysOpenWhatARowHas(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web", "shop"}, "--state-dir", t.TempDir())
	d.write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: 7\n")
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	term.shows("default/shop-node1", "broken.yaml")

	term.press("?")
	term.shows("first and last row")
	term.press("x")
	term.hides("first and last row")

	term.press("/")
	term.press("w", "e", "b")
	term.shows("/web", "Pods 1 of 2")
	term.hides("default/shop-node1")
	term.press("Enter")
	term.shows("clear filter web")

	term.press("Enter")
	term.shows("Pod default/web-node1", "image: nginx:1.27")
	d.write("web.yaml", podManifest("web", "nginx:1.28"))
	term.shows("image: nginx:1.28") // also while it is open
	term.press("h")
	term.shows("spec.containers[main].image: nginx:1.27 → nginx:1.28", "web.yaml")
	term.press("d")
	term.shows("-  - image: nginx:1.27", "+  - image: nginx:1.28")
	term.press("w")
	term.shows("Health:    Unknown: ", "Manifest:  "+d.manifests+"/web.yaml, Accepted")
	term.press("Escape")
	term.shows("Pods 1 of 2")
	term.press("Escape")
	term.shows("Pods 2 ━")

	term.press("4", "Enter")
	term.shows("Update ADD default/web-node1", "Revision", "recreated: spec.containers[main].image: nginx:1.27 → nginx:1.28")
	term.back()
	term.press("2", "Enter")
	term.shows("Manifest   "+d.manifests+"/broken.yaml", "Line       5", "Verdict    Rejected", "broken.yaml:5: spec.containers: expected list, got number 7")
	term.back()
	term.press("w")
	term.shows("Health:    Unhealthy: ", "Fix:       correct ")
	term.back()
	term.press("1", "Enter")
	term.shows("Source file", "degraded: false", "watch: inotify")
	term.back()
	term.shows("(this view)") // in the second status: the first is older than the stream
	term.press("5", "Enter")
	term.shows("Subscriber ", "mode: incremental")
	term.press("C-c")
	term.ends(0)
}

func TestTheViewResumesAfterARestart(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"}, "--state-dir", t.TempDir())
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	term.shows("default/web-node1", "(this view)")
	d.write("other.yaml", podManifest("other", "nginx:1.27"))
	term.shows("ADD ") // so the view has a revision from which it can resume
	d.kill()
	term.shows("disconnected, retrying: ", "default/web-node1")
	d.write("web.yaml", podManifest("web", "nginx:1.28"))
	d.start()
	term.hides("disconnected")
	term.shows("recreated: ", "REMOVE", "ready")
	term.hides("RESET")
}

func TestAResizeDrawsTheScreenAgain(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"})
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	term.shows("default/web-node1")
	for _, size := range [][2]string{{"200", "50"}, {"20", "5"}, {"1", "1"}, {"3", "60"}, {"80", "24"}} {
		term.tmux("resize-window", "-x", size[0], "-y", size[1])
		if size[1] == "50" {
			term.shows("MANIFEST", "CLIENT") // tables have headers
		}
	}
	term.shows("default/web-node1", "q quit")
	term.press("q")
	term.ends(0)
}

func TestTheViewRefusesOtherTerminals(t *testing.T) {
	t.Parallel()
	term := newTerminalOf(t, 200, 24, []string{"TERM=dumb"}, "sh", "-c", `"$0" top --socket /nowhere; echo "exit code $?"; exec cat`, program)
	term.shows(`top: the terminal can't move its cursor (TERM=dumb): use "podconfigctl watch"`, "exit code 1")
}

func TestTheViewWaitsForADaemon(t *testing.T) {
	t.Parallel()
	term := newTerminal(t, 80, 24, nil, "--socket", "/nowhere")
	term.shows("disconnected, retrying: ", "/nowhere", "no such file or directory")
	term.press("q")
	term.ends(0)
}

func TestTheViewEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, []string{"web"})
	term := newTerminal(t, 80, 24, nil, "--socket", d.socket)
	term.shows("default/web-node1")
	pid := term.tmux("display-message", "-p", "#{pane_pid}")
	term.tmux("new-window", "-d", "cat") // the server goes on
	term.tmux("kill-window")
	testutil.Until(t, "top ends", func() bool { return !runs(t, pid) })
}
