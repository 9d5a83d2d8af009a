package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/server"
)

const (
	// notifyPeriod is the maximum time between two updates of the status for the service
	// manager.
	notifyPeriod = 5 * time.Second
	// notifyTimeout is the maximum wait for a service manager that does not read.
	notifyTimeout = time.Second
)

// serviceManager reports to the service manager, for example systemd, how the daemon is:
// when it is ready, and after that its status and, as long as it is live, that it is.
//
// sd_notify(3), sd_watchdog_enabled(3).
type serviceManager struct {
	// notify sends assignments such as READY=1.
	notify func(state string) error
	// watchdog is the time without WATCHDOG=1 after which the service manager ends the
	// daemon; 0 for no limit.
	watchdog time.Duration
	live     []server.Check
	// status returns one line about the daemon.
	status func() string
	// notes are further notifications.
	notes <-chan note

	busy      chan struct{} // has an element during a notification
	ready     bool          // READY=1 was sent
	said      string        // the last status that was sent
	notLive   bool
	complains bool // the last notification failed
}

// serviceManager returns the service manager of the environment, or nil if there is none or
// the daemon does not notify it.
func (d *Daemon) serviceManager(ctx context.Context) *serviceManager {
	if !d.config.NotifyServiceManager || os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	watchdog, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not read the interval of the service manager's watchdog, sending no keep-alive pings")
	}
	return &serviceManager{
		notify: func(state string) error {
			_, err := sd.SdNotify(false, state)
			return err
		},
		watchdog: watchdog, live: []server.Check{d.own}, status: d.statusLine, notes: d.notes, busy: make(chan struct{}, 1),
	}
}

// note is a notification. sent is closed when it was sent, or the service manager did not read.
type note struct {
	state []string
	sent  chan<- struct{}
}

// Reloading tells the service manager that the configuration is being reloaded. The caller
// calls done when this has ended, whatever the result.
//
// systemd.service(5): Type=notify-reload.
func (d *Daemon) Reloading(ctx context.Context) (done func()) {
	if !d.config.NotifyServiceManager || os.Getenv("NOTIFY_SOCKET") == "" {
		return func() {}
	}
	notify := func(state ...string) {
		sent := make(chan struct{})
		select {
		case <-ctx.Done():
		case d.notes <- note{state, sent}:
			<-sent
		}
	}
	notify(sd.SdNotifyReloading, strings.TrimSuffix(sd.SdNotifyMonotonicUsec(), "\n"))
	return func() { notify(sd.SdNotifyReady) }
}

// statusLine returns the number of pods, and why the daemon is not ready or not live.
func (d *Daemon) statusLine() string {
	parts := []string{fmt.Sprintf("Serving %d pods", d.journal.Status().Pods)}
	for _, c := range slices.Concat(d.ready, d.live) {
		if err := c.Check(); err != nil {
			parts = append(parts, err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

// run reports until the context is done, and then that the daemon stops.
func (m *serviceManager) run(ctx context.Context) error {
	if m == nil {
		return nil
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

// report sends the assignments that are due. Those that fail are due again.
func (m *serviceManager) report(ctx context.Context) {
	if state, status := m.state(ctx); m.send(ctx, state) {
		m.ready, m.said = true, status
	}
}

// state returns the assignments that are due, and the status.
func (m *serviceManager) state(ctx context.Context) (state []string, status string) {
	status, err := m.status(), m.check()
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

// check returns the faults of the daemon itself.
func (m *serviceManager) check() error {
	var errs []error
	for _, c := range m.live {
		if err := c.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// send sends assignments. If the service manager does not read, it gives up after a moment.
// Until the service manager reads again, the goroutine of the notification remains, and
// further ones are left out. It reports whether the assignments were sent, or will be.
func (m *serviceManager) send(ctx context.Context, state []string) bool {
	if len(state) == 0 {
		return false
	}
	select {
	case m.busy <- struct{}{}:
	default:
		return false
	}
	sent := make(chan error, 1)
	go func() {
		err := m.notify(strings.Join(state, "\n"))
		<-m.busy
		sent <- err
	}()
	var err error
	late := false
	select {
	case err = <-sent:
	case <-time.After(notifyTimeout):
		late, err = true, fmt.Errorf("it did not read for %v", notifyTimeout)
	}
	if err != nil && !m.complains {
		klog.FromContext(ctx).Error(err, "Failed to notify the service manager (NOTIFY_SOCKET)")
	}
	m.complains = err != nil
	return err == nil || late
}
