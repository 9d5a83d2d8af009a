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

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// supervisor is a service manager in the way of systemd. It starts the daemon, kills it when
// the watchdog expires, and starts it again.
type supervisor struct {
	// daemon is what the daemons have in common. Its cmd is not set.
	*daemon
	watchdog time.Duration
	args     []string
	stop     context.CancelFunc

	mu      sync.Mutex
	process *os.Process
	// notes counts the notifications, by assignment without the value of STATUS. status is
	// that value.
	notes  map[string]int
	status string
	kills  int
	// pinged has an element after READY=1 and WATCHDOG=1.
	pinged chan struct{}
}

// supervise runs podconfigd with a service manager until the test ends.
func supervise(t *testing.T, watchdog time.Duration, args ...string) *supervisor {
	t.Helper()
	dir := testutil.ShortDir(t)
	s := &supervisor{
		daemon:   &daemon{dir: dir, socket: filepath.Join(dir, "s"), log: new(testutil.Buffer)},
		watchdog: watchdog, notes: make(map[string]int), pinged: make(chan struct{}, 1),
		args: append([]string{"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"), "--hostname-override", "node1"}, args...),
	}
	s.mkdir(t)
	s.client = client.New(s.socket)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	var wg sync.WaitGroup
	wg.Go(func() { s.receive(conn) })
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := s.serve(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		conn.Close()
		wg.Wait()
		s.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", s.log)
		}
	})
	return s
}

// receive counts notifications until the connection is closed.
func (s *supervisor) receive(conn *net.UnixConn) {
	note := make([]byte, 4096)
	for {
		n, err := conn.Read(note)
		if err != nil {
			return
		}
		s.mu.Lock()
		for line := range strings.SplitSeq(string(note[:n]), "\n") {
			if status, is := strings.CutPrefix(line, "STATUS="); is {
				s.status, line = status, "STATUS"
			}
			s.notes[line]++
			if line == "READY=1" || line == "WATCHDOG=1" {
				select {
				case s.pinged <- struct{}{}:
				default:
				}
			}
		}
		s.mu.Unlock()
	}
}

// serve runs one daemon until the context is done or the watchdog expires.
func (s *supervisor) serve(ctx context.Context) error {
	cmd := exec.Command(binary, s.args...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.dir, "notify"), fmt.Sprint("WATCHDOG_USEC=", s.watchdog.Microseconds()))
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.process = cmd.Process
	s.mu.Unlock()
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
			<-ended
			s.mu.Lock()
			s.kills++
			s.mu.Unlock()
			return nil
		}
	}
}

// seen returns the number of notifications, and how often the watchdog expired.
func (s *supervisor) seen(note string) (n, kills int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[note], s.kills
}
