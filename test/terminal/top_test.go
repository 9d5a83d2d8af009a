package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
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
