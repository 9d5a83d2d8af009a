package lookup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/apistatus"
)

// kernfsHandle is the type of the file handles of cgroups, which have the ID of the cgroup.
//
// Linux: FILEID_KERNFS of enum fid_type.
const kernfsHandle = 0xfe

// errNoCgroup2 means that the machine has no hierarchy of cgroup v2, the only one whose cgroups have IDs.
var errNoCgroup2 = errors.New("cgroup v2 is not mounted")

// cgroupTree finds cgroups of version 2 by ID.
type cgroupTree struct {
	proc string
	// mount is where the hierarchy was found last; nil if it was not looked for.
	mount atomic.Pointer[cgroupMount]
	// walked has the paths of all cgroups below the mount by ID. It is used where handles may not be opened.
	walked *paced[map[uint64]string]
}

// cgroupMount is a mount of cgroup v2.
type cgroupMount struct {
	// point is where it is mounted, and root the cgroup that is mounted there, in the cgroup namespace of podconfigd.
	point, root string
}

func newCgroupTree(proc string) *cgroupTree {
	c := &cgroupTree{proc: proc}
	c.walked = newPaced(c.walk)
	return c
}

// path returns the path of the cgroup with an ID. The error is errNoCgroup2 or fs.ErrNotExist if that is
// known.
func (c *cgroupTree) path(ctx context.Context, id uint64) (string, error) {
	m, err := c.mounted()
	if err != nil {
		return "", err
	}
	below, err := m.open(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		below, err = c.search(ctx, m, id)
	}
	if err != nil {
		return "", err
	}
	return path.Join(m.root, below), nil
}

// open returns the path of a cgroup below the mount. It opens the handle of the cgroup, which requires CAP_DAC_READ_SEARCH in
// the user namespace of the host.
func (m *cgroupMount) open(id uint64) (string, error) {
	mount, err := unix.Open(m.point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(mount) //nolint:errcheck // it was only read
	fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(kernfsHandle, binary.NativeEndian.AppendUint64(nil, id)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	switch {
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ENOTDIR): // the files of a cgroup have IDs too
		return "", fs.ErrNotExist
	case err != nil:
		return "", err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	opened, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	below, found := strings.CutPrefix(opened, m.point)
	if err == nil && !found {
		err = fs.ErrNotExist // it is outside of what is mounted
	}
	return below, err
}

// search returns the path of a cgroup below the mount from a walk.
func (c *cgroupTree) search(ctx context.Context, m *cgroupMount, id uint64) (string, error) {
	asked := time.Now()
	for _, at := range []time.Time{{}, asked} {
		known, err := c.walked.since(ctx, at, true)
		if err != nil {
			return "", err
		}
		below, found := known[id]
		if now, err := inode(filepath.Join(m.point, below)); found && err == nil && now == id {
			return below, nil
		}
	}
	return "", fs.ErrNotExist
}

// walk returns the paths of all cgroups below the mount by ID.
func (c *cgroupTree) walk() map[uint64]string {
	known := make(map[uint64]string)
	m, err := c.mounted()
	if err != nil {
		return known
	}
	_ = filepath.WalkDir(m.point, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // it was removed in the meantime
		}
		if id, err := inode(dir); err == nil {
			known[id] = strings.TrimPrefix(dir, m.point)
		}
		return nil
	})
	return known
}

// id returns the ID of the cgroup with a path, as in /proc/PID/cgroup; 0 if it is not known.
func (c *cgroupTree) id(cgroup string) uint64 {
	dir := c.directory(cgroup)
	if dir == "" {
		return 0
	}
	id, err := inode(dir)
	if err != nil {
		return 0
	}
	return id
}

// directory returns the directory of the cgroup with a path, as in /proc/PID/cgroup; empty if it is not mounted.
func (c *cgroupTree) directory(cgroup string) string {
	m, err := c.mounted()
	if err != nil {
		return ""
	}
	if m.root == "/" {
		return filepath.Join(m.point, cgroup)
	}
	below, found := strings.CutPrefix(cgroup, m.root)
	if !found {
		return ""
	}
	return filepath.Join(m.point, below)
}

// processes returns the PIDs of the processes in the cgroup with a path; none if it is not known.
func (c *cgroupTree) processes(cgroup string) []string {
	dir := c.directory(cgroup)
	if dir == "" {
		return nil
	}
	pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // without it, all processes are read
	return strings.Fields(string(pids))
}

// mounted returns the mount of cgroup v2. A machine with cgroup v1 can have it too: at /sys/fs/cgroup/unified with systemd.
func (c *cgroupTree) mounted() (*cgroupMount, error) {
	if m := c.mount.Load(); m != nil && m.valid() {
		return m, nil
	}
	mounts, err := os.ReadFile(filepath.Join(c.proc, "self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("finding cgroup v2: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		// proc_pid_mountinfo(5): the root is field 4, the mount point field 5; the type follows a field "-".
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		if m := (&cgroupMount{point: fields[4], root: fields[3]}); m.valid() {
			c.mount.Store(m)
			return m, nil
		}
	}
	return nil, errNoCgroup2
}

// valid reports whether cgroup v2 is mounted there, and not hidden by another mount.
func (m *cgroupMount) valid() bool {
	var s unix.Statfs_t
	return unix.Statfs(m.point, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC
}

// inode returns the inode of a directory, which is the ID of a cgroup.
func inode(dir string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return 0, err
	}
	return s.Ino, nil
}

// withCgroupID adds to the target the containers that a cgroup names.
func (l *Lookup) withCgroupID(ctx context.Context, id uint64, t *target) error {
	found, err := l.cgroups.path(ctx, id)
	switch {
	case errors.Is(err, errNoCgroup2):
		return apistatus.New(http.StatusNotImplemented, fmt.Sprintf(
			"looking up %s: %v on this machine, and the cgroups of version 1 have no IDs: look up the cgroup by its path", t.what, err))
	case errors.Is(err, fs.ErrNotExist):
		return notFound(t.what, "there is no such cgroup of version 2")
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return unavailable(t.what, err)
	}
	if t.containers = ParseCgroup(found); len(t.containers) == 0 {
		return notFound(t.what, "it belongs to no container: its path is "+shownCgroup(found))
	}
	return nil
}
