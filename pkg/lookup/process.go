package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"
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

// started is a process by its PID and its start time, in clock ticks after boot.
type started struct {
	pid   int
	start uint64
}

// firsts has the first processes of containers, as far as they were read before they ended.
type firsts struct {
	mu sync.Mutex // guards what follows
	// containers has the IDs of the containers.
	containers map[started]string
	// limit is the number of processes at which those of containers that the runtime does not know any more are removed.
	limit int
}

// add adds first processes. known reports whether the runtime knows a container.
func (f *firsts) add(containers map[started]string, known func(id string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.containers == nil {
		f.containers = make(map[started]string)
	}
	maps.Copy(f.containers, containers)
	if len(f.containers) < f.limit {
		return
	}
	maps.DeleteFunc(f.containers, func(_ started, id string) bool { return !known(id) })
	f.limit = 2*len(f.containers) + 64
}

// find returns the first process that had a PID at a time, and the ID of its container; an empty ID if there is none. It ignores
// a start of 0, and a zero time.
func (f *firsts) find(pid int, start uint64, at time.Time) (last started, id string) {
	latest := ^uint64(0)
	if !at.IsZero() {
		latest = startedAt(at)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, container := range f.containers {
		if p.pid == pid && (start == 0 || p.start == start) && p.start <= latest && p.start >= last.start {
			last, id = p, container
		}
	}
	return last, id
}

// readProcesses reads the processes in containers, and keeps the first ones.
func (l *Lookup) readProcesses() *processes {
	all := readProcesses(l.proc)
	if l.runtime == nil {
		return all
	}
	containers := make(map[started]string)
	for id := range all.byContainer {
		recorded, known := l.runtime.FindContainer(id)
		if found := l.ofContainer(all, id); known && len(found) > 0 {
			containers[started{found[0].pid, found[0].start}] = recorded.Container.ID // the memory is that of the record
		}
	}
	l.firsts.add(containers, l.isRecorded)
	return all
}

// isRecorded reports whether the runtime knows a container.
func (l *Lookup) isRecorded(id string) bool {
	_, known := l.runtime.FindContainer(id)
	return known
}

// endedProcess adds to the target the container whose first process a query selects, which has ended. It reports false if it is
// not known.
func (l *Lookup) endedProcess(q *Query, t *target) bool {
	p, id := l.firsts.find(int(q.PID), q.StartTime, q.At)
	if id == "" {
		return false
	}
	recorded, known := l.runtime.FindContainer(id)
	if !known || isOver(recorded.Container.FinishedAt, q.At) {
		return false
	}
	t.containers, t.first = []CgroupContainer{{ID: id, PodUID: recorded.UID}}, p
	return true
}

// isOver reports whether an end was before a time. A pod's status has seconds, so they count. A zero end or time is not known.
func isOver(end, at time.Time) bool {
	return !end.IsZero() && !at.IsZero() && at.Truncate(time.Second).After(end)
}
