package lookup

import (
	"maps"
	"sync"
	"time"
)

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
