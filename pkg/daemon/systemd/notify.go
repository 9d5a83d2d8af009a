// Package systemd connects the daemon to the service manager that started it.
//
//	notifier := systemd.NewNotifier(systemd.Options{Live: live, Status: status})
//	sockets, err := systemd.Passed()
//
// A [Notifier] sends notifications and keeps the watchdog quiet (sd_notify). [Sockets] are the listening sockets that
// the service manager passed (socket activation). Without a service manager, there is neither.
package systemd

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"
)

const (
	// notifyPeriod is the maximum time between two updates of the status for the service
	// manager.
	notifyPeriod = 5 * time.Second
	// notifyTimeout is the maximum wait for a service manager that does not read, notifyAgainTimeout that for one that did
	// not read before: the next reload and the stop do not wait for it again.
	notifyTimeout      = time.Second
	notifyAgainTimeout = 10 * time.Millisecond
)

// Options are the functions from which a Notifier gets what it reports.
type Options struct {
	// Live are the faults of the daemon itself: while there is one, the watchdog gets no ping.
	Live func() error
	// Status returns one line about the daemon.
	Status func() string
}

// Notifier reports to the service manager, for example systemd: that the daemon is ready, then its status, and, as
// long as it is live, a ping for the watchdog.
//
// sd_notify(3), sd_watchdog_enabled(3).
type Notifier struct {
	Options
	// notify sends assignments such as READY=1.
	notify func(state string, timeout time.Duration) error
	// watchdog is the time without WATCHDOG=1 after which the service manager ends the
	// daemon; 0 for no limit.
	watchdog    time.Duration
	watchdogErr error
	// notes are notifications of Reloading.
	notes chan note

	ready     bool   // READY=1 was sent
	said      string // the last status that was sent
	notLive   bool
	complains bool // the last notification failed
}

// NewNotifier returns the notifier for the service manager of the environment, or nil if there is none.
func NewNotifier(opts Options) *Notifier {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	n := &Notifier{Options: opts, notes: make(chan note), notify: notify}
	n.watchdog, n.watchdogErr = sd.SdWatchdogEnabled(false)
	return n
}

// notify sends assignments to the socket in the environment.
func notify(state string, timeout time.Duration) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// note is a notification. sent is closed when it was sent, or the service manager did not read.
type note struct {
	state []string
	sent  chan<- struct{}
}

// Reloading tells the service manager that the configuration is being reloaded, while Run runs. The caller
// calls done when this has ended, whatever the result.
//
// systemd.service(5): Type=notify-reload.
func (m *Notifier) Reloading(ctx context.Context) (done func()) {
	notify := func(state ...string) {
		sent := make(chan struct{})
		select {
		case <-ctx.Done():
		case m.notes <- note{state, sent}:
			<-sent
		}
	}
	notify(sd.SdNotifyReloading, strings.TrimSuffix(sd.SdNotifyMonotonicUsec(), "\n"))
	return func() { notify(sd.SdNotifyReady) }
}

// Run reports until the context is done, and then that the daemon stops.
func (m *Notifier) Run(ctx context.Context) error {
	if m.watchdogErr != nil {
		klog.FromContext(ctx).Error(m.watchdogErr, "Could not read the interval of the service manager's watchdog, sending no keep-alive pings")
	}
	period := notifyPeriod
	if m.watchdog > 0 {
		period = max(time.Millisecond, min(period, m.watchdog/2))
	}
	m.report(ctx)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			m.send(ctx, []string{sd.SdNotifyStopping, "STATUS=Stopping"})
			return context.Cause(ctx)
		case n := <-m.notes:
			if !m.send(ctx, n.state) {
				m.ready = false // it may still wait for the end of a reload: report sends READY=1 again
			}
			close(n.sent)
		case <-ticker.C:
			m.report(ctx)
		}
	}
}

// report sends the assignments that are due. If that fails, they are due again.
func (m *Notifier) report(ctx context.Context) {
	if state, status := m.state(ctx); m.send(ctx, state) {
		m.ready, m.said = true, status
	}
}

// state returns the assignments that are due, and the status.
func (m *Notifier) state(ctx context.Context) (state []string, status string) {
	status, err := m.Status(), m.Live()
	if !m.ready {
		state = append(state, sd.SdNotifyReady)
	}
	if err != nil {
		status = "Not live: " + err.Error()
	} else if m.watchdog > 0 {
		state = append(state, sd.SdNotifyWatchdog)
	}
	if logger := klog.FromContext(ctx); m.watchdog > 0 && m.notLive != (err != nil) {
		m.notLive = err != nil
		if m.notLive {
			logger.Error(err, "podconfigd is not live, the watchdog of the service manager will end it", "after", m.watchdog)
		} else {
			logger.Info("podconfigd is live again")
		}
	}
	status = strings.ReplaceAll(status, "\n", "; ")
	if status != m.said {
		state = append(state, "STATUS="+status)
	}
	return state, status
}

// send sends assignments. It reports whether they were sent.
func (m *Notifier) send(ctx context.Context, state []string) bool {
	if len(state) == 0 {
		return false
	}
	timeout := notifyTimeout
	if m.complains {
		timeout = notifyAgainTimeout
	}
	err := m.notify(strings.Join(state, "\n"), timeout)
	if err != nil && !m.complains {
		klog.FromContext(ctx).Error(err, "Failed to notify the service manager (NOTIFY_SOCKET)")
	}
	m.complains = err != nil
	return err == nil
}
