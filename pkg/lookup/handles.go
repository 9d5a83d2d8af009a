package lookup

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// handles are what the kernel knows a container by. What is not known is zero.
type handles struct {
	// first is the first process of the container.
	first process
	// cgroup is the path of the cgroup of the container, and cgroupID its ID.
	cgroup     string
	cgroupID   uint64
	namespaces [kinds]uint64
	// read is when they were read.
	read time.Time
}

// addHandles adds to an answer what the kernel knows its containers by. The error is the cause of the context.
func (l *Lookup) addHandles(ctx context.Context, answer *v1alpha1.Lookup) error {
	for i := range answer.Pods {
		c := answer.Pods[i].Container
		if c == nil || c.ID == "" || c.Ended != nil || c.State == pleg.StateCreated.String() || c.State == pleg.StateExited.String() {
			continue // it has no process
		}
		h, err := l.handlesOf(ctx, c.ID, time.Now().Add(-fresh), false)
		if err != nil {
			return err
		}
		h.set(c)
	}
	return nil
}

// AddHandles adds to a container what the kernel knows it by. If its cgroup is not beside that of its sandbox, they are from
// processes that were read since a time, and AddHandles waits as long as the pace of readings requires. It reports false if none of
// its processes is known. The error is the cause of the context.
func (l *Lookup) AddHandles(ctx context.Context, c *v1alpha1.LookupContainer, since time.Time) (bool, error) {
	h := l.besideSandbox(c.ID, c.SandboxID)
	if h == nil {
		var err error
		if h, err = l.handlesOf(ctx, c.ID, since, true); err != nil {
			return false, err
		}
	}
	h.set(c)
	return h != nil, nil
}

// besideSandbox returns the handles of a container whose cgroup has the path of that of its sandbox, with the ID of the container, as
// runtimes make it. This takes much less time than to read all processes. It returns nil if there is no such cgroup, or the sandbox
// is not known.
func (l *Lookup) besideSandbox(id, sandbox string) *handles {
	known := l.processes.last.Load().value
	if known == nil || sandbox == "" {
		return nil
	}
	for _, p := range known.byContainer[sandbox] {
		path, isV2 := cgroupOfContainer(p.cgroup.text, sandbox)
		if !isV2 {
			continue
		}
		inside := newProcesses()
		for _, pid := range l.cgroups.processes(strings.ReplaceAll(path, sandbox, id)) {
			if d, err := openProcess(l.proc, pid); err == nil {
				number, _ := strconv.Atoi(pid)
				inside.read(d, number, make(map[string]*cgroup))
				d.close()
			}
		}
		for _, p := range l.ofContainer(inside, id) {
			if h := l.readHandles(p, id); h != nil {
				l.firsts.add(map[started]string{{p.pid, p.start}: id}, l.isRecorded)
				return h
			}
		}
	}
	return nil
}

// set adds the handles to a container. Nil handles are not known.
func (h *handles) set(c *v1alpha1.LookupContainer) {
	if h == nil {
		return
	}
	c.PID, c.StartTime, c.Cgroup, c.CgroupID = h.first.pid, h.first.start, h.cgroup, h.cgroupID
	c.NetNS, c.MntNS, c.PidNS, c.CgroupNS = h.namespaces[netNS], h.namespaces[mntNS], h.namespaces[pidNS], h.namespaces[cgroupNS]
}

// handlesOf returns the handles of a container, or nil if none of its processes is known. They were read at most the time fresh
// ago. If the processes have not been read since a time, handlesOf reads them for a container that is not known.
func (l *Lookup) handlesOf(ctx context.Context, id string, since time.Time, patient bool) (*handles, error) {
	var before *processes
	for _, at := range []time.Time{{}, since} {
		all, err := l.processes.since(ctx, at, patient)
		if err != nil {
			return nil, err
		}
		if all == before {
			break
		}
		if h := l.heldBy(all, id); h != nil {
			return h, nil
		}
		before = all
	}
	return nil, nil //nolint:nilnil // they are not known
}

// heldBy returns the handles of the first process of a container that still runs, or nil.
func (l *Lookup) heldBy(all *processes, id string) *handles {
	known, _ := all.handles.Load(id)
	if h, ok := known.(*handles); ok && time.Since(h.read) < fresh {
		return h
	}
	for _, p := range l.ofContainer(all, id) {
		if h := l.readHandles(p, id); h != nil {
			all.handles.Store(id, h)
			return h
		}
	}
	return nil
}

// ofContainer returns the processes of a container, the first one first.
func (l *Lookup) ofContainer(all *processes, id string) []process {
	found := slices.DeleteFunc(slices.Clone(all.byContainer[id]), func(p process) bool { return !l.isOf(p, id) })
	slices.SortFunc(found, func(a, b process) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return found
}

// isOf reports whether a process is in a container that its cgroup names. A container that may write below its own cgroup can
// give a cgroup there the name of another one: see findContainer.
func (l *Lookup) isOf(p process, id string) bool {
	for _, c := range p.cgroup.containers {
		var recorded pleg.Found
		ok := false
		if l.runtime != nil && c.ID != "" {
			recorded, ok = l.runtime.FindContainer(c.ID)
		}
		switch {
		case c.ID == id:
			return !ok || c.PodUID == "" || c.PodUID == recorded.UID
		case ok, c.PodUID != "" && l.knows(c.PodUID):
			return false
		}
	}
	return false
}

// readHandles reads the handles of a container from its first process. It returns nil if the process has
// ended, or is in another cgroup.
func (l *Lookup) readHandles(p process, id string) *handles {
	d, err := openProcess(l.proc, strconv.Itoa(p.pid))
	if err != nil {
		return nil
	}
	defer d.close()
	if text, err := d.cgroup(); err != nil || text != p.cgroup.text || !p.is(d) {
		return nil
	}
	h := &handles{first: p, namespaces: d.namespaces(), read: time.Now()}
	var isV2 bool
	if h.cgroup, isV2 = cgroupOfContainer(p.cgroup.text, id); isV2 {
		h.cgroupID = l.cgroups.id(h.cgroup)
	}
	return h
}

// cgroupOfContainer returns the path of the cgroup of a container, without cgroups that are below it, from the lines of
// /proc/PID/cgroup. It is that of version 2 if the container has one.
func cgroupOfContainer(lines, id string) (path string, isV2 bool) {
	for line := range strings.Lines(lines) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		before, after, found := strings.Cut(parts[2], id)
		if !found {
			continue
		}
		after, _, _ = strings.Cut(after, "/") // .scope
		path, isV2 = before+id+after, parts[1] == ""
		if isV2 {
			return path, true
		}
	}
	return path, false
}
