package lookup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	start  uint64
	cgroup *cgroup
}

// processes has the processes in containers, as they were read from procfs.
type processes struct {
	byNamespace map[namespace][]process
	// byContainer has the processes in cgroups that name a container.
	byContainer map[string][]process
	// handles has the *handles of containers that were asked for, by ID.
	handles sync.Map
	// denied is true if podconfigd may not read the namespaces of some of them.
	denied bool
}

// readProcesses reads the processes in containers from a procfs.
func readProcesses(proc string) *processes {
	all := &processes{byNamespace: make(map[namespace][]process), byContainer: make(map[string][]process)}
	entries, _ := os.ReadDir(proc) // without processes, nothing is found
	cgroups := make(map[string]*cgroup)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		text, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue // it has ended
		}
		g := cgroups[string(text)]
		if g == nil {
			g = &cgroup{string(text), parseCgroup(string(text), false)}
			cgroups[g.text] = g
		}
		if len(g.containers) == 0 {
			continue
		}
		if start, err := startTime(dir); err == nil {
			all.add(dir, process{pid, start, g})
		}
	}
	return all
}

// add adds a process with its namespaces.
func (all *processes) add(dir string, p process) {
	for _, c := range p.cgroup.containers {
		if c.ID != "" {
			all.byContainer[c.ID] = first(all.byContainer[c.ID], p)
		}
	}
	for k := range kind(kinds) {
		inode, err := readNamespace(dir, k)
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

// same reports whether the PID still belongs to the process, and the process is in the cgroup in which it was.
func (p process) same(proc string) bool {
	dir := filepath.Join(proc, strconv.Itoa(p.pid))
	text, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil || string(text) != p.cgroup.text {
		return false
	}
	start, err := startTime(dir)
	return err == nil && start == p.start
}

// in reports whether the process still is in a namespace.
func (p process) in(proc string, ns namespace) bool {
	inode, err := readNamespace(filepath.Join(proc, strconv.Itoa(p.pid)), ns.kind)
	return err == nil && inode == ns.inode && p.same(proc) // the start time is read last
}

// readNamespace returns the inode of a namespace of a process. dir is the directory of the process.
func readNamespace(dir string, k kind) (uint64, error) {
	link, err := os.Readlink(filepath.Join(dir, "ns", k.file()))
	if err != nil {
		return 0, err
	}
	inode, found := strings.CutPrefix(link, k.file()+":[")
	if !found {
		return 0, fmt.Errorf("%s/ns/%s: expected %[2]s:[INODE], got %q", dir, k.file(), link)
	}
	return strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64)
}

// startTime returns the start time of a process, in clock ticks after boot. dir is the directory of the process.
func startTime(dir string) (uint64, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	// The name of the process is in parentheses, and can have any character.
	const fromState = 22 - 3 // the state is field 3, the start time field 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= fromState {
		return 0, fmt.Errorf("%s/stat: expected 22 fields, got %q", dir, stat)
	}
	return strconv.ParseUint(string(fields[fromState]), 10, 64)
}
