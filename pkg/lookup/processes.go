package lookup

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
)

// kind is a kind of namespaces.
type kind int

const (
	netNS kind = iota
	mntNS
	pidNS
	cgroupNS
	kinds int = iota
)

// String returns the name of the kind, which is also that of the parameter.
func (k kind) String() string { return k.file() + "ns" }

// file returns the name of the file in /proc/PID/ns.
func (k kind) file() string { return [...]string{"net", "mnt", "pid", "cgroup"}[k] }

// namespace is a namespace of the kernel. The inode is unique in its kind, and reused.
type namespace struct {
	kind  kind
	inode uint64
}

// cgroup is what /proc/PID/cgroup says about processes in containers.
type cgroup struct {
	text       string
	containers []CgroupContainer
}

// process is a process in a container: the first of those in the same cgroup, or in the same cgroup and namespace.
type process struct {
	pid int
	// start is its start time, in clock ticks after boot.
	start    uint64
	identity identity
	cgroup   *cgroup
}

// processes has the processes in containers, as they were read from procfs.
type processes struct {
	byNamespace map[namespace][]process
	// byContainer has the processes in cgroups that name a container.
	byContainer map[string][]process
	// handles has the *handles of containers that were asked for, by ID.
	handles sync.Map
	// host are the namespaces of the host: those of process 1. One that podconfigd may not read is its own, unless podconfigd runs
	// in a container, or with mounts of its own. One that is not known is 0.
	host [kinds]uint64
	// denied is true if podconfigd may not read the namespaces of some of them.
	denied bool
}

func newProcesses() *processes {
	return &processes{byNamespace: make(map[namespace][]process), byContainer: make(map[string][]process)}
}

// readProcesses reads the processes in containers from a procfs.
func readProcesses(proc string) *processes {
	all := newProcesses()
	all.readHost(proc)
	entries, _ := os.ReadDir(proc) // without processes, nothing is found
	cgroups := make(map[string]*cgroup)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		d, err := openProcess(proc, e.Name())
		if err != nil {
			continue // it has ended
		}
		all.read(d, pid, cgroups)
		d.close()
	}
	return all
}

// readHost reads the namespaces of the host.
func (all *processes) readHost(proc string) {
	if self, err := openProcess(proc, "self"); err == nil {
		defer self.close()
		if text, err := self.cgroup(); err == nil && len(ParseCgroup(text)) == 0 {
			all.host = self.namespaces()
			all.host[mntNS] = 0
		}
	}
	if first, err := openProcess(proc, "1"); err == nil {
		defer first.close()
		for k, inode := range first.namespaces() {
			all.host[k] = cmp.Or(inode, all.host[k])
		}
	}
}

// read adds a process if it is in a container. cgroups has what was read before.
func (all *processes) read(d processDir, pid int, cgroups map[string]*cgroup) {
	var buffer fileBuffer
	text, err := d.read("cgroup", &buffer)
	if err != nil {
		return // it has ended
	}
	g := cgroups[string(text)]
	if g == nil {
		g = &cgroup{string(text), parseCgroup(string(text), false)}
		cgroups[g.text] = g
	}
	if len(g.containers) == 0 {
		return
	}
	p := process{pid: pid, cgroup: g}
	if p.start, err = d.start(); err != nil {
		return
	}
	p.identity, _ = d.identity() // without it, only the start time counts
	for _, c := range g.containers {
		if c.ID != "" {
			all.byContainer[c.ID] = first(all.byContainer[c.ID], p)
		}
	}
	for k := range kind(kinds) {
		inode, err := d.namespace(k)
		if err != nil {
			all.denied = all.denied || errors.Is(err, fs.ErrPermission)
			continue
		}
		ns := namespace{k, inode}
		all.byNamespace[ns] = first(all.byNamespace[ns], p)
	}
}

// first adds a process to a list that has the first process of each cgroup.
func first(list []process, p process) []process {
	i := slices.IndexFunc(list, func(other process) bool { return other.cgroup == p.cgroup })
	switch {
	case i < 0:
		return append(list, p)
	case p.start < list[i].start || p.start == list[i].start && p.pid < list[i].pid:
		list[i] = p
	}
	return list
}

// is reports whether a directory is that of the process.
func (p process) is(d processDir) bool {
	if id, err := d.identity(); err == nil && id == p.identity {
		return true // reading the start time takes longer
	}
	start, err := d.start()
	return err == nil && start == p.start
}

// in reports whether the process still is in a namespace.
func (p process) in(proc string, ns namespace) bool {
	d, err := openProcess(proc, strconv.Itoa(p.pid))
	if err != nil {
		return false
	}
	defer d.close()
	inode, err := d.namespace(ns.kind)
	return err == nil && inode == ns.inode && p.is(d)
}
