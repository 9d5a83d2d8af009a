package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A client that may see no pod gets the reason in the panes, and the rest of the status.
func TestAClientThatMaySeeNothing(t *testing.T) {
	t.Parallel()
	config := filepath.Join(testutil.ShortDir(t), "config.yaml")
	rules := fmt.Sprintf(`apiVersion: config.podconfigd.dev/v1alpha1
kind: PodConfigdConfiguration
access:
- {uids: [%d], view: full}
`, os.Getuid()+4321)
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, []string{"web"}, "--config", config)
	term := newTerminal(t, 120, 24, nil, "--socket", d.socket)
	term.shows("node1  ready  0 pods", " may not ")
	term.hides("default/web-node1", "disconnected")
	term.press("q")
	term.ends(0)
}

// The view works with --server.
func TestTheViewOfAServer(t *testing.T) {
	t.Parallel()
	address := testutil.ShortDir(t) + "/other"
	d := startDaemon(t, []string{"web"}, "--listen", "unix://"+address)
	term := newTerminal(t, 80, 24, nil, "--server", "unix://"+address)
	term.shows("default/web-node1", "node1  ready")
	d.kill()
	term.shows("disconnected, retrying")
}
