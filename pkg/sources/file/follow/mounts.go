package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// mountPause is the minimum time between two reports of mounts. A node that starts many
// containers has many mounts in other places, and each report causes a listing.
const mountPause = 100 * time.Millisecond

// mounts reports changes of the mounts that this process sees.
type mounts struct {
	changed chan struct{}
	// info is /proc/self/mountinfo. stop is an eventfd that ends the reports.
	info, stop int
	running    sync.WaitGroup
}

// watchMounts starts the reports. If mounts can't be watched there are none, and polling
// finds a mount over the path.
func watchMounts(ctx context.Context) *mounts {
	m := &mounts{changed: make(chan struct{}, 1), info: -1, stop: -1}
	if err := m.open(); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to watch mounts, polling")
		return m
	}
	m.running.Go(func() {
		for m.wait(-1, unix.POLLPRI) {
			await.Signal(m.changed)
			if !m.wait(mountPause, 0) {
				return
			}
		}
	})
	return m
}

func (m *mounts) open() (err error) {
	if m.info, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening /proc/self/mountinfo: %w", err)
	}
	if m.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("creating an eventfd: %w", err)
	}
	return nil
}

// wait waits for the event on mountinfo, for at most the timeout. It reports whether to
// continue. It blocks a thread. The poller of the runtime is edge-triggered, and would
// also wake at the start, because the file is always readable.
func (m *mounts) wait(timeout time.Duration, event int16) (goOn bool) {
	fds := []unix.PollFd{{Fd: int32(m.stop), Events: unix.POLLIN}, {Fd: int32(m.info), Events: event}}
	if event == 0 {
		fds = fds[:1] // POLLERR is reported anyway
	}
	millis := int(timeout.Milliseconds())
	if timeout < 0 {
		millis = -1
	}
	for {
		_, err := unix.Poll(fds, millis)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents == 0
		}
	}
}

// close ends the reports.
func (m *mounts) close() {
	if m.stop >= 0 {
		_, _ = unix.Write(m.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd at 0 accepts it
	}
	m.running.Wait()
	for _, fd := range []int{m.info, m.stop} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written
		}
	}
}
