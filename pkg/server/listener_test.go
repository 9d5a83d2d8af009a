package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/journal"
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
			return errors.Join(leftOver(d.socket), leftOver(d.pods))
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

// leftOver replaces the file by a socket on which nothing listens, in one step.
func leftOver(path string) error {
	l, err := takeOver(path)
	if err != nil {
		return err
	}
	return l.Close()
}

// takeOver replaces the file by another socket, in one step.
func takeOver(path string) (net.Listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".new", Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Rename(path+".new", path)
}

// If another daemon has taken the path, its socket stays until that daemon ends.
func TestASocketThatIsTakenIsLeftAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the check of the socket")
	}
	d := serveJournal(t, journal.Options{})
	other, err := takeOver(d.socket)
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

// A file that is not a socket is not touched either.
func TestAFileInTheSocketsPlaceIsLeftAlone(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	made, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	l := made.(*listener)
	if again, err := l.restore(t.Context()); again || err != nil {
		t.Errorf("restored what is there: %v, %v", again, err)
	}
	if err := os.WriteFile(path+".new", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if again, err := l.restore(t.Context()); again || err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("restored where a file is: %v, %v", again, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("the file: %q, %v", data, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := l.restore(t.Context()); !again || err != nil {
		t.Errorf("restored where nothing is: %v, %v", again, err)
	}
	// A closed server does not create the file.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if again, err := l.restore(t.Context()); again || err != nil {
		t.Errorf("restored after Close: %v, %v", again, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file after Close: %v", err)
	}
}

// For any failure, errors have the path that users know, not the name under which the
// socket was created.
func TestErrorsNameTheSocketsPath(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	l, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.(*listener).socket.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil || err.Error() != "accept unix "+path+": i/o timeout" {
		t.Errorf("Accept: %v", err)
	}
}

// Errors of a connection have the path of the socket too.
func TestErrorsOfConnectionsNameTheSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	l, err := Listen(t.Context(), ListenOptions{Path: path, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := newSplitter(l, &newLimiter(Limits{}).sockets.gate).admit(accepted)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = client.Close() // with an unread byte, so that the connection is reset
	_, readErr := conn.Read(make([]byte, 1))
	_, writeErr := conn.Write([]byte("x"))
	for _, err := range []error{readErr, writeErr} {
		if err == nil || !strings.Contains(err.Error(), " unix "+path+"->@: ") {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	}
}
