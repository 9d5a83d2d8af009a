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

// process adds to the target the containers that the cgroup of the process names.
func (l *Lookup) process(q *Query, pid int64, t *target) error {
	d, err := openProcess(l.proc, strconv.FormatInt(pid, 10))
	if err != nil {
		return notRead(t.what, err)
	}
	defer d.close()
	if q.StartTime != 0 || q.Self {
		start, err := d.start()
		switch {
		case err != nil:
			return notRead(t.what, err)
		case q.Self && start > startedAt(q.Connected):
			return notFound(t.what, "it has ended, and another process has its PID")
		case !q.Self && start != q.StartTime:
			return notFound(t.what, fmt.Sprintf("it started at %d, not at %d: the process has ended, and another one has its PID", start, q.StartTime))
		}
	}
	cgroup, err := d.cgroup()
	if err != nil {
		return notRead(t.what, err)
	}
	if t.containers = ParseCgroup(cgroup); len(t.containers) == 0 {
		return notFound(t.what, "it runs in no container: its cgroup is "+shownCgroup(cgroup))
	}
	return nil
}

// notRead answers a query for a process that can't be read.
func notRead(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return notFound(what, "there is no such process in the PID namespace of podconfigd")
	}
	return unavailable(what, err)
}

// ticks is how many clock ticks a second has for programs.
const ticks = 100

// startedAt returns the start time of a process that starts at a time, in clock ticks after boot.
func startedAt(at time.Time) uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0 // no kernel is without this clock
	}
	return uint64((time.Duration(now.Nano()) - time.Since(at)) / (time.Second / ticks))
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
