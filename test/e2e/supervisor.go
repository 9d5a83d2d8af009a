package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Supervisor is a service manager in the way of systemd. It starts the daemon, kills it when
// the watchdog expires, and starts it again.
type Supervisor struct {
	// Daemon is what the daemons have in common. Its Cmd is not set.
	*Daemon
	watchdog time.Duration
	args     []string
	Stop     context.CancelFunc

	Mu      sync.Mutex
	Process *os.Process
	// notes counts the notifications, by assignment without the value of STATUS. status is
	// that value.
	Notes  map[string]int
	Status string
	Kills  int
	// pinged has an element after READY=1 and WATCHDOG=1.
	pinged chan struct{}
}

// Supervise runs podconfigd with a service manager until the test ends.
func Supervise(t *testing.T, watchdog time.Duration, args ...string) *Supervisor {
	t.Helper()
	dir := testutil.ShortDir(t)
	s := &Supervisor{
		Daemon:   &Daemon{Dir: dir, Socket: filepath.Join(dir, "s"), Log: new(testutil.Buffer)},
		watchdog: watchdog, Notes: make(map[string]int), pinged: make(chan struct{}, 1),
		args: append([]string{"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"), "--hostname-override", "node1"}, args...),
	}
	s.Mkdir(t)
	s.Client = client.New(s.Socket)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.Stop = cancel
	var wg sync.WaitGroup
	wg.Go(func() { s.receive(conn) })
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := s.Serve(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		conn.Close()
		wg.Wait()
		s.Client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", s.Log)
		}
	})
	return s
}

// receive counts notifications until the connection is closed.
func (s *Supervisor) receive(conn *net.UnixConn) {
	note := make([]byte, 4096)
	for {
		n, err := conn.Read(note)
		if err != nil {
			return
		}
		s.Mu.Lock()
		for line := range strings.SplitSeq(string(note[:n]), "\n") {
			if status, is := strings.CutPrefix(line, "STATUS="); is {
				s.Status, line = status, "STATUS"
			}
			s.Notes[line]++
			if line == "READY=1" || line == "WATCHDOG=1" {
				select {
				case s.pinged <- struct{}{}:
				default:
				}
			}
		}
		s.Mu.Unlock()
	}
}

// Serve runs one daemon until the context is done or the watchdog expires.
func (s *Supervisor) Serve(ctx context.Context) error {
	cmd := exec.Command(Binary, s.args...)
	cmd.Stdout, cmd.Stderr = s.Log, s.Log
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.Dir, "notify"), fmt.Sprint("WATCHDOG_USEC=", s.watchdog.Microseconds()))
	if err := cmd.Start(); err != nil {
		return err
	}
	s.Mu.Lock()
	s.Process = cmd.Process
	s.Mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	var expired <-chan time.Time // the watchdog begins with READY=1
	for {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Process.Signal(syscall.SIGCONT) // a failed test may leave it stopped
			return <-ended
		case err := <-ended:
			return errors.Join(errors.New("podconfigd ended"), err)
		case <-s.pinged:
			expired = time.After(s.watchdog)
		case <-expired:
			_ = cmd.Process.Kill()
			<-ended //nolint:errcheck // killed
			s.Mu.Lock()
			s.Kills++
			s.Mu.Unlock()
			return nil
		}
	}
}

// Seen returns the number of notifications, and how often the watchdog expired.
func (s *Supervisor) Seen(note string) (n, kills int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Notes[note], s.Kills
}
