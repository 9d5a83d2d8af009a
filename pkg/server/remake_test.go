package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/servertest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// answers waits until the sockets are served: HTTP, and the Pods API, which answers HTTP
// with 404.
func (d *daemon) answers(t *testing.T) {
	t.Helper()
	for path, want := range map[string]int{d.socket: http.StatusOK, d.pods: http.StatusNotFound} {
		testutil.Eventually(t, func() error {
			client := http.Client{Transport: unixTransport(path), Timeout: testutil.Patience}
			defer client.CloseIdleConnections()
			resp, err := client.Get("http://localhost/livez")
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("%s: %s", path, resp.Status)
			}
			return nil
		})
	}
}

func (d *daemon) remakes(t *testing.T) string {
	t.Helper()
	_, metrics := d.get(t, "/metrics")
	var found []string
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, `podconfigd_server_socket_remakes_total{socket="`+d.socket+`"} `); ok {
			found = append(found, strings.TrimSpace(value))
		}
	}
	return strings.Join(found, ",")
}

func TestASocketThatIsGoneIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the check of the socket")
	}
	t.Parallel()
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	before := d.read(t, "")
	before.expect(t, v1alpha1.OpAdd, "a")
	before.expect(t, v1alpha1.OpBookmark)
	dir := filepath.Dir(d.socket)
	for i, remove := range []func() error{
		func() error { return errors.Join(os.Remove(d.socket), os.Remove(d.pods)) },
		func() error { return errors.Join(os.Rename(dir, dir+".away"), os.RemoveAll(dir+".away")) },
		func() error { // a socket on which nothing listens
			return errors.Join(servertest.LeftOver(d.socket), servertest.LeftOver(d.pods))
		},
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		d.answers(t)
		testutil.Until(t, "the metric counts it", func() bool { return d.remakes(t) == fmt.Sprint(i+1) })
		info, err := os.Lstat(d.socket)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file that is made again: %v, %v", info, err)
		}
	}
	// Present connections stay.
	d.add("b", 1)
	before.expect(t, v1alpha1.OpAdd, "b")
}

// If another daemon has taken the path, its socket stays until that daemon ends.
func TestASocketThatIsTakenIsLeftAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the check of the socket")
	}
	t.Parallel()
	d := serveJournal(t, journal.Options{})
	other, err := servertest.TakeOver(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the check of the path, each period
		conn, err := other.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d.answers(t)
}
