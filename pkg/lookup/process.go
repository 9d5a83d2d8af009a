package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// process adds to the target the containers that the cgroup of the process names.
func (l *Lookup) process(q *Query, pid int64, t *target) error {
	dir := filepath.Join(l.proc, strconv.FormatInt(pid, 10))
	var cgroup []byte
	for {
		before, err := startTime(dir)
		if err == nil && q.StartTime != 0 && before != q.StartTime {
			return notFound(t.what, fmt.Sprintf("it started at %d, not at %d: the process has ended, and another one has its PID", before, q.StartTime))
		}
		if err == nil && q.Self && before > startedAt(q.Connected) {
			return notFound(t.what, "it has ended, and another process has its PID")
		}
		if err == nil {
			cgroup, err = os.ReadFile(filepath.Join(dir, "cgroup"))
		}
		var after uint64
		if err == nil {
			after, err = startTime(dir)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
			return notFound(t.what, "there is no such process in the PID namespace of podconfigd")
		case err != nil:
			return unavailable(t.what, err)
		}
		if before == after {
			break // otherwise, another process has got the PID: try again
		}
	}
	if t.containers = ParseCgroup(string(cgroup)); len(t.containers) == 0 {
		return notFound(t.what, "it runs in no container: its cgroup is "+shownCgroup(string(cgroup)))
	}
	return nil
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
