package systemd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// managed is a daemon with a service manager, for one bubble.
type managed struct {
	*Notifier
	stop func()
	// reloads are further notifications.
	reloads chan note
	log     bytes.Buffer // may be read after stop

	mu      sync.Mutex
	notes   []string
	fault   error
	line    string
	refuses error         // the service manager gets nothing, if not nil
	blocked chan struct{} // the service manager does not read before it is closed, if not nil
}

func manage(t *testing.T, watchdog time.Duration, refuses ...error) *managed {
	t.Helper()
	m := &managed{line: "fine", reloads: make(chan note), refuses: errors.Join(refuses...)}
	m.Notifier = &Notifier{
		watchdog: watchdog, notes: m.reloads,
		notify: func(state string, timeout time.Duration) error {
			m.mu.Lock()
			blocked := m.blocked
			m.mu.Unlock()
			if blocked != nil {
				select {
				case <-blocked:
				case <-time.After(timeout):
					return os.ErrDeadlineExceeded
				}
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.refuses != nil {
				return m.refuses
			}
			m.notes = append(m.notes, strings.ReplaceAll(state, "\n", " "))
			return nil
		},
		Options: Options{
			Live: func() error {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.fault
			},
			Status: func() string {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.line
			},
		},
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&m.log)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	m.stop = func() {
		cancel()
		wg.Wait()
	}
	return m
}

func (m *managed) set(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// after expects these notifications after some time.
func (m *managed) after(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.notes, want) {
		t.Errorf("got %q, want %q", m.notes, want)
	}
	m.notes = nil
}

func TestTheServiceManagerIsNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 4*time.Second)
		m.after(t, 0, "READY=1 WATCHDOG=1 STATUS=fine")
		m.after(t, 6*time.Second, "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
		m.set(func() { m.line = "two\nlines" })
		m.after(t, 4*time.Second, "WATCHDOG=1 STATUS=two; lines", "WATCHDOG=1")
		m.set(func() { m.fault = errors.New("stuck") })
		m.after(t, time.Hour, "STATUS=Not live: stuck")
		m.set(func() { m.fault = nil })
		m.after(t, 4*time.Second, "WATCHDOG=1 STATUS=two; lines", "WATCHDOG=1")
		m.stop()
		m.after(t, 0, "STOPPING=1 STATUS=Stopping")
		for _, said := range []string{"not live, the watchdog of the service manager will end it", "live again"} {
			if n := strings.Count(m.log.String(), said); n != 1 {
				t.Errorf("%q is in the log %d times:\n%s", said, n, m.log.String())
			}
		}
	})
}

// Without a watchdog, and with the shortest one.
func TestTheIntervalOfTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 0)
		m.after(t, time.Hour, "READY=1 STATUS=fine")
		m.set(func() { m.line = "better" })
		m.after(t, notifyPeriod, "STATUS=better")
		m.stop()

		m = manage(t, time.Microsecond)
		m.after(t, 2*time.Millisecond, "READY=1 WATCHDOG=1 STATUS=fine", "WATCHDOG=1", "WATCHDOG=1")
		m.stop()
	})
}

// A service manager that does not read delays nothing.
func TestTheServiceManagerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 4*time.Second)
		m.after(t, 0, "READY=1 WATCHDOG=1 STATUS=fine")
		blocked := make(chan struct{})
		m.set(func() { m.blocked = blocked })
		m.after(t, 11500*time.Millisecond)
		m.set(func() { m.blocked = nil })
		m.after(t, 2*time.Second, "WATCHDOG=1")
		m.set(func() { m.blocked = blocked })
		begin := time.Now()
		if m.stop(); time.Since(begin) > notifyTimeout {
			t.Errorf("the stop took %v", time.Since(begin))
		}
		m.after(t, 0)
		if n := strings.Count(m.log.String(), "Failed to notify the service manager"); n != 2 {
			t.Errorf("the log has it %d times:\n%s", n, m.log.String())
		}
	})
}

// A service manager that did not read delays no reload and no stop, also if the watchdog is due all the time.
func TestAServiceManagerThatDoesNotReadIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 2*time.Second)
		m.after(t, 0, "READY=1 WATCHDOG=1 STATUS=fine")
		m.set(func() { m.blocked = make(chan struct{}) })
		m.after(t, 10*notifyTimeout)
		begin := time.Now()
		m.Reloading(t.Context())()
		m.stop()
		if d := time.Since(begin); d > 5*notifyAgainTimeout {
			t.Errorf("a reload and a stop took %v", d)
		}
	})
}

// The wait for a real socket that nothing reads ends.
func TestNotificationsThatAreNotRead(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for err == nil { // until the queue of the socket is full
		err = notify("WATCHDOG=1", notifyTimeout)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// What the service manager did not get is sent again.
func TestAFailedNotificationIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 0, errors.New("no buffer space available"))
		m.after(t, notifyPeriod/2)
		m.set(func() { m.refuses = nil })
		m.after(t, notifyPeriod, "READY=1 STATUS=fine")
		m.set(func() { m.line, m.refuses = "better", errors.New("no buffer space available") })
		m.after(t, notifyPeriod)
		m.set(func() { m.refuses = nil })
		m.after(t, notifyPeriod, "STATUS=better")
		m.after(t, time.Hour)
		m.stop()
		m.after(t, 0, "STOPPING=1 STATUS=Stopping")
	})
}

// If the service manager does not read when a reload ends, it is told later.
func TestTheEndOfAReloadIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, 0)
		defer m.stop()
		m.after(t, 0, "READY=1 STATUS=fine")
		reading := make(chan struct{})
		m.set(func() { m.blocked = reading })
		for _, state := range []string{"RELOADING=1", "READY=1"} {
			sent := make(chan struct{})
			m.reloads <- note{[]string{state}, sent}
			<-sent
		}
		m.set(func() { m.blocked = nil })
		m.after(t, notifyPeriod, "READY=1")
	})
}
