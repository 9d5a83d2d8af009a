package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// clientOf is the environment variable with the socket to which this test connects as another process.
const clientOf = "PODCONFIGD_TEST_CLIENT_OF"

// The process of a client is known, and whether it has ended. Its PID may then be that of another process.
func TestTheProcessOfAClient(t *testing.T) {
	if path := os.Getenv(clientOf); path != "" {
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTheProcessOfAClient$")
	cmd.Env = append(os.Environ(), clientOf+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := New(accepted, l.Addr(), nil, func() {})
	defer accepted.Close()
	ctx := context.WithValue(t.Context(), connKey{}, c)
	if pid, connected, ok := Process(ctx); int(pid) != cmd.Process.Pid || time.Since(connected) < 0 || !ok {
		t.Errorf("got PID %d at %v, %t, want %d", pid, connected, ok, cmd.Process.Pid)
	}
	if ProcessEnded(ctx) {
		t.Error("it is said to have ended")
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := control(accepted.(*net.UnixConn), func(fd int) error {
		_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	}); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("the kernel does not say whether the process of a client has ended")
	}
	if !ProcessEnded(ctx) {
		t.Error("it is not said to have ended")
	}
}

func TestPeersOverTCP(t *testing.T) {
	for ip, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "::1": "loopback", "127.0.0.2": "loopback", "::ffff:127.1.2.3": "loopback",
	} {
		t.Run(ip, func(t *testing.T) {
			if id := networkPeer(netip.MustParseAddr(ip)); !id.known || id.String() != want {
				t.Errorf("%s: %v, want %s", ip, id, want)
			}
		})
	}
}
