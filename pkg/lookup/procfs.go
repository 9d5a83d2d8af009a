package lookup

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
