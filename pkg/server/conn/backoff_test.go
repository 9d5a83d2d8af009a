package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// starved is a listener that has no file descriptors for its connections for some time.
type starved struct {
	net.Listener
	until time.Time
	tries atomic.Int32
	done  chan struct{}
	close sync.Once
}

func (s *starved) Accept() (net.Conn, error) {
	s.tries.Add(1)
	if time.Now().Before(s.until) {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	<-s.done
	return nil, net.ErrClosed
}

func (s *starved) Close() error { s.close.Do(func() { close(s.done) }); return nil }

func (s *starved) Addr() net.Addr { return &net.UnixAddr{Name: "/run/s", Net: "unix"} }

func TestAcceptBacksOffAndLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		l := &starved{until: time.Now().Add(time.Minute), done: make(chan struct{})}
		split := NewSplitter(l, &NewLimiter(Limits{}, nil).Sockets)
		done := make(chan error)
		go func() { done <- split.accept(ctx) }()
		time.Sleep(2 * time.Minute) //nolint:forbidigo // time is virtual
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := l.tries.Load(); n > 80 {
			t.Errorf("%d attempts in a minute", n)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "too many open files") {
			t.Errorf("logged %q", lines)
		}
	})
}
