package daemon

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// activated is the command of a daemon that gets these files from its service manager.
func activated(dir string, files []*os.File, args ...string) *exec.Cmd {
	script := `LISTEN_PID=$$ exec "$0" "$@"`
	args = append([]string{
		"-c", script, e2e.Binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"), "--hostname-override", "node1",
	}, args...)
	cmd := exec.Command("sh", args...)
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Repeat("podconfigd.socket:", len(files)-1)+"podconfigd.socket")
	return cmd
}

// made returns the file and the address of a listening socket of the service manager.
func made(t *testing.T, network, address string) (*os.File, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := l.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false)
	}
	defer l.Close()
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, l.Addr().String()
}

// The daemon serves each socket that it is passed at the address in its configuration, and makes the
// others. A client that connects while no daemon runs gets the answer of the next one.
func TestSocketsOfTheServiceManager(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	socket, _ := made(t, "unix", filepath.Join(dir, "s"))
	further, _ := made(t, "unix", filepath.Join(dir, "further"))
	pods, _ := made(t, "unix", filepath.Join(dir, "pods"))
	readOnly, readOnlyAt := made(t, "tcp", "127.0.0.1:0")
	metrics, metricsAt := made(t, "tcp", "127.0.0.1:0")
	if err := os.Chmod(filepath.Join(dir, "further"), 0o604); err != nil {
		t.Fatal(err)
	}
	files := []*os.File{metrics, further, readOnly, pods, socket}
	args := []string{
		"--listen", "unix://" + filepath.Join(dir, "further"), "--pods-api-socket", filepath.Join(dir, "pods"), "--listen", "http://" + readOnlyAt,
		"--metrics-bind-address", metricsAt, "--listen", "unix://" + filepath.Join(dir, "own"),
	}
	d := e2e.StartCommand(t, dir, activated(dir, files, args...))
	for _, address := range []string{"http://" + readOnlyAt + "/v1alpha1/status", "http://" + metricsAt + "/metrics"} {
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || len(body) == 0 {
			t.Errorf("%s: %s, %v", address, resp.Status, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	for name, there := range map[string]bool{"s": true, "further": true, "pods": true, "own": false} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if (err == nil) != there {
			t.Errorf("%s after the end: %v", name, err)
		}
		if name == "further" && err == nil && info.Mode().Perm() != 0o604 {
			t.Errorf("the mode of a passed socket is %v", info.Mode())
		}
	}

	for _, name := range []string{"s", "further"} {
		answer, err := waitForNext(t, filepath.Join(dir, name), func() { d = e2e.StartCommand(t, dir, activated(dir, files, args...)) })
		if err != nil || !strings.HasPrefix(answer, "HTTP/1.0 200 OK") {
			t.Errorf("%s: the next daemon answers %q, %v", name, answer, err)
		}
		if _, err := d.End(t, syscall.SIGTERM); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	}
}

// waitForNext sends a request to a socket, starts a daemon, and returns the answer.
func waitForNext(t *testing.T, path string, start func()) (string, error) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	start()
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// What the daemon can't serve stops the start, with an error that names it.
func TestFaultsOfTheServiceManagersSockets(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	socket, _ := made(t, "unix", filepath.Join(dir, "s"))
	other, _ := made(t, "unix", filepath.Join(dir, "other"))
	tcp, tcpAt := made(t, "tcp", "127.0.0.1:0")
	packets, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "packets"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	datagram, err := packets.File()
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	accepted, err := net.Dial("unix", filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	connection, err := accepted.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, test := range []struct {
		name  string
		files []*os.File
		want  []string
	}{
		{"not in the configuration", []*os.File{socket, other, tcp}, []string{
			"socket activation: the service manager passed the socket " + filepath.Join(dir, "other") + ` ("podconfigd.socket"), which is not in the configuration`,
			"set it with --socket, --pods-api-socket, --listen or --metrics-bind-address, or remove it from the socket unit", tcpAt,
		}},
		{"twice", []*os.File{socket, socket}, []string{filepath.Join(dir, "s") + ` ("podconfigd.socket"), which is not in the configuration, or passed it twice`}},
		{"datagrams", []*os.File{socket, datagram}, []string{`passed file descriptor 4, "podconfigd.socket": it is not a stream socket: expected only ListenStream=`}},
		{"a connection", []*os.File{connection}, []string{"passed file descriptor 3", "it does not listen: set Accept=no in the socket unit"}},
		{"a file", []*os.File{null}, []string{"it is not a socket: expected only ListenStream= in the socket unit"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := activated(dir, test.files).CombinedOutput()
			if err == nil {
				t.Fatalf("it started:\n%s", out)
			}
			for _, want := range test.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("got\n%s\nwant %q", out, want)
				}
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(dir, "s")); err != nil {
		t.Errorf("a start that failed removed the socket: %v", err)
	}
}
