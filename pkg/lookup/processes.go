package lookup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
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

// processDir is the opened directory of a process in procfs. It stays that of the process: after the end of the process, all reads
// fail, also if another process has its PID.
type processDir struct {
	fd   int
	path string
}

// openProcess opens the directory of a process, which has its PID or "self" as its name. The caller must close it.
func openProcess(proc, name string) (processDir, error) {
	d := processDir{path: filepath.Join(proc, name)}
	var err error
	if d.fd, err = unix.Open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return d, fmt.Errorf("opening %s: %w", d.path, err)
	}
	return d, nil
}

func (d processDir) close() { _ = unix.Close(d.fd) } // nothing was written

// fileBuffer is enough for most files of a process.
type fileBuffer [4096]byte

// read reads a file. The result is in the buffer if it is large enough.
func (d processDir) read(name string, buffer *fileBuffer) ([]byte, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s/%s: %w", d.path, name, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for data := buffer[:0]; ; {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if n <= 0 || err != nil {
			if err != nil {
				err = fmt.Errorf("reading %s/%s: %w", d.path, name, err)
			}
			return data, err
		}
		data = slices.Grow(data[:len(data)+n], 1) // a read of nothing is the end
	}
}

// cgroup returns the lines of the cgroups of the process.
func (d processDir) cgroup() (string, error) {
	var buffer fileBuffer
	text, err := d.read("cgroup", &buffer)
	return string(text), err
}

// start returns the start time of the process, in clock ticks after boot.
func (d processDir) start() (uint64, error) {
	var buffer fileBuffer
	stat, err := d.read("stat", &buffer)
	if err != nil {
		return 0, err
	}
	// The name of the process is in parentheses, and can have any character.
	const fromState = 22 - 3 // the state is field 3, the start time field 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= fromState {
		return 0, fmt.Errorf("%s/stat: expected 22 fields, got %q", d.path, stat)
	}
	return strconv.ParseUint(string(fields[fromState]), 10, 64)
}

// namespace returns the inode of a namespace of the process.
func (d processDir) namespace(k kind) (uint64, error) {
	var buffer [64]byte
	n, err := unix.Readlinkat(d.fd, "ns/"+k.file(), buffer[:])
	if err != nil {
		return 0, fmt.Errorf("reading %s/ns/%s: %w", d.path, k.file(), err)
	}
	link := string(buffer[:n])
	inode, found := strings.CutPrefix(link, k.file()+":[")
	if !found {
		return 0, fmt.Errorf("%s/ns/%s: expected %[2]s:[INODE], got %q", d.path, k.file(), link)
	}
	return strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64)
}

// namespaces returns the inodes of the namespaces of the process. One that podconfigd may not read is 0.
func (d processDir) namespaces() (all [kinds]uint64) {
	for k := range kind(kinds) {
		all[k], _ = d.namespace(k) // 0 with an error
	}
	return all
}

// identity tells the directory of a process from that of a later process with the same PID. The kernel can give the directory
// another identity while the process runs, so only an equal one says something.
type identity struct {
	inode   uint64
	changed unix.Timespec
}

func (d processDir) identity() (identity, error) {
	var s unix.Stat_t
	err := unix.Fstat(d.fd, &s)
	return identity{s.Ino, s.Ctim}, err
}
