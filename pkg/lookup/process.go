package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// process adds to the target the containers that the cgroup of the process names. A query with a start time or a time can
// select a process that has ended.
func (l *Lookup) process(q *Query, t *target) error {
	pid := q.PID
	if q.Self {
		pid = int64(q.Client)
	}
	d, err := openProcess(l.proc, strconv.FormatInt(pid, 10))
	if err == nil {
		defer d.close()
		err = d.isSelected(q)
	}
	var cgroup string
	if err == nil {
		cgroup, err = d.cgroup()
	}
	switch hasEnded := errors.Is(err, errAnother) || errors.Is(err, errLater) || isGone(err); {
	case hasEnded && (q.StartTime != 0 || !q.At.IsZero()):
		if l.endedProcess(q, t) {
			return nil
		}
		return notFound(t.what, shown(err)+" (of processes that have ended, podconfigd knows only the first one of a container, if a lookup has read it)")
	case hasEnded:
		return notFound(t.what, shown(err))
	case err != nil:
		return unavailable(t.what, err)
	}
	if t.containers = ParseCgroup(cgroup); len(t.containers) == 0 {
		return notFound(t.what, "it runs in no container: its cgroup is "+shownCgroup(cgroup))
	}
	return nil
}

// errAnother means that a process has the PID that a query selects, but started at another time.
var errAnother = errors.New("it has ended, and another process has its PID")

// errLater means that a process has the PID that a query selects, but started after the time.
var errLater = errors.New("the process that has the PID now started later")

// isSelected returns an error if the process is not the one that a query selects.
func (d processDir) isSelected(q *Query) error {
	if q.StartTime == 0 && q.At.IsZero() && !q.Self {
		return nil
	}
	start, err := d.start()
	switch {
	case err != nil:
		return err
	case q.Self && start > startedAt(q.Connected):
		return errAnother
	case q.StartTime != 0 && start != q.StartTime:
		return fmt.Errorf("%w: that one started at %d, not at %d", errAnother, start, q.StartTime)
	case !q.At.IsZero() && start > startedAt(q.At):
		return errLater
	}
	return nil
}

// isGone reports whether a process could not be read because it has ended.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// shown returns what the answer says of a process that has ended.
func shown(err error) string {
	if isGone(err) {
		return "there is no such process in the PID namespace of podconfigd"
	}
	return err.Error()
}

// ticks is how many clock ticks a second has for programs.
const ticks = 100

// startedAt returns the start time of a process that starts at a time, in clock ticks after boot; 0 before the boot.
func startedAt(at time.Time) uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0 // no kernel is without this clock
	}
	return uint64(max(0, time.Duration(now.Nano())-time.Since(at)) / (time.Second / ticks))
}

// shownCgroup returns what an error shows of the cgroups of a process: the longest path.
func shownCgroup(lines string) string {
	first := ""
	for line := range strings.Lines(lines) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if path := parts[len(parts)-1]; len(path) > len(first) {
			first = path
		}
	}
	return printable.Cut(first, maxQuoted)
}
