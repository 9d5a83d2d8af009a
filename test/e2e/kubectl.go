package e2e

import (
	"context"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Bridge is another address of the daemon's socket, whose connections can be cut.
type Bridge struct {
	Address string
	Cut     func()
}

// Bridge makes the daemon's socket available on a loopback port, for clients without unix
// sockets, or on another unix socket.
func (d *Daemon) Bridge(t *testing.T, network, address string) *Bridge {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bridge{Address: l.Addr().String()}
	var running sync.WaitGroup
	var mu sync.Mutex
	var cancels []context.CancelFunc
	b.Cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, cancel := range cancels {
			cancel()
		}
		cancels = nil
	}
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			mu.Lock()
			cancels = append(cancels, cancel)
			mu.Unlock()
			running.Go(func() { d.pass(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.Cut()
		running.Wait()
	})
	return b
}

// pass copies bytes in both directions until either end closes.
func (d *Daemon) pass(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	socket, err := new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	if err != nil {
		return
	}
	defer socket.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = socket.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, socket}, {socket, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // ends with either end
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
}

// Kubectl is a real kubectl that talks to a server.
type Kubectl struct{ Server string }

// Kubectl returns a kubectl for the daemon.
func (d *Daemon) Kubectl(t *testing.T) Kubectl {
	t.Helper()
	testutil.Eventually(t, func() error { // kubectl does not try again
		conn, err := net.Dial("unix", d.Socket)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return Kubectl{"http://" + d.Bridge(t, "tcp", "127.0.0.1:0").Address}
}

// Command returns a command of kubectl that reads no configuration of this machine.
func (k Kubectl) Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), components.Kubectl(t), append([]string{"--server", k.Server}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=/dev/null"}
	return cmd
}

// Run returns the output of a command that must succeed.
func (k Kubectl) Run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k.Command(t, args...).CombinedOutput()
	if err != nil {
		t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Ages are the ages in the output of kubectl, and the space after them.
var Ages = regexp.MustCompile(`\b(\d+[smhd])+ *`)
