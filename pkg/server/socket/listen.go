package socket

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// maxSocketPath is the maximum length of the path of a unix socket on Linux, in bytes.
const maxSocketPath = 107

// errSocketInUse is returned if another process serves the socket.
var errSocketInUse = errors.New("another process is serving it")

// ListenOptions configures a socket.
type ListenOptions struct {
	Path string
	// Flag is the name of the flag that sets Path, for error messages.
	Flag string
	// Mode is the mode of the socket file.
	Mode fs.FileMode
	// Group is the name or number of the group of the socket file; the group of the process if
	// empty.
	Group string

	// uid is the owner of the socket file, plus one; 0 is the user of the process.
	uid int
}

// owner returns the owner of the socket file; -1 is the user of the process.
func (o *ListenOptions) owner() int { return o.uid - 1 }

// Listen creates the socket and listens on it. It creates the directory if it is missing. A
// Server that serves the listener creates the socket file again if it is removed.
func Listen(ctx context.Context, opts ListenOptions) (net.Listener, error) {
	made, err := listen(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("creating the socket %s: %w", opts.Path, err)
	}
	return &listener{opts: opts, socket: made}, nil
}

// CheckPath returns an error if a path is too long for a socket.
func CheckPath(path string) error {
	if n := len(path); n > maxSocketPath {
		return fmt.Errorf("the path has %d bytes: expected at most %d", n, maxSocketPath)
	}
	return nil
}

// CheckGroup returns an error if no group can have the name or number. Whether there is a group with a
// name depends on the machine, so Listen checks that.
func CheckGroup(group string) error {
	if strings.Trim(strings.TrimPrefix(group, "-"), "0123456789") != "" || group == "" {
		return nil
	}
	if _, err := strconv.ParseUint(group, 10, 31); err != nil {
		return fmt.Errorf("%q: expected the name of a group, or a number from 0 to 2147483647", group)
	}
	return nil
}

// socket is a socket and its file.
type socket struct {
	*net.UnixListener
	file fs.FileInfo
	// passed is true if the service manager owns the socket and its file.
	passed bool
}

func listen(ctx context.Context, opts ListenOptions) (_ *socket, err error) {
	gid, err := groupID(opts.Group)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(opts.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockSocket(ctx, opts.Path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := checkFree(ctx, opts); err != nil {
		return nil, err
	}

	// The file gets its mode under a temporary name, and then its name by a rename. So no
	// client finds a half-made socket, and a stale file is replaced in one step.
	temp := filepath.Join(dir, "."+rand.Text()[:8])
	if n := max(len(temp), len(opts.Path)); n > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes: expected at most %d: choose another path with %s",
			len(opts.Path), len(opts.Path)-(n-maxSocketPath), opts.Flag)
	}
	defer func() { err = withoutName(err) }()
	inner, err := bind(ctx, temp, opts.Mode)
	if err != nil {
		return nil, err
	}
	inner.SetUnlinkOnClose(false)
	defer func() {
		if err != nil {
			_ = inner.Close() // the first error is the one to report
			_ = os.Remove(temp)
		}
	}()
	made, err := claim(temp, opts.Mode, opts.owner(), gid)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(temp, opts.Path); err != nil {
		return nil, err
	}
	return &socket{UnixListener: inner, file: made}, nil
}

// bind creates a socket whose file has at most the mode from the start. The umask belongs to the
// whole process, so it stays, and can take bits away.
func bind(ctx context.Context, name string, mode fs.FileMode) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode.Perm())) })
		return cmp.Or(err, failed)
	}}
	made, err := config.Listen(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	return made.(*net.UnixListener), nil //nolint:errcheck,forcetypeassert // it is one for this network
}

var errNotOurs = errors.New("another process has replaced it: let only the user of podconfigd write to its directory")

// claim gives the file of a socket of this process its mode, owner and group. -1 leaves the owner or the
// group as it is. claim works on the open file, not on its name. If a link or another file has replaced
// the socket, claim returns an error and does not change it.
func claim(name string, mode fs.FileMode, uid, gid int) (fs.FileInfo, error) {
	file, err := os.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeSocket || stat.Nlink != 1 || int(stat.Uid) != os.Geteuid() {
		return nil, errNotOurs
	}
	if info.Mode().Perm() != mode { // only the owner may change it
		if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), mode); err != nil {
			return nil, err
		}
	}
	if err := unix.Fchownat(int(file.Fd()), "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("chown: %w", err)
	}
	return info, nil
}

// withoutName removes the temporary name of the socket from an error of the system. The
// caller adds the path.
func withoutName(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	if op, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	if op, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// checkFree returns an error if the path exists, unless it is a socket that no process
// serves. It removes an empty directory.
func checkFree(ctx context.Context, opts ListenOptions) error {
	path := opts.Path
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return removeDir(ctx, opts)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("there is a file of that name that is not a socket; move it away or choose another path with %s", opts.Flag)
	}
	switch err := dial(ctx, path); {
	case err == nil:
		return fmt.Errorf("%w; stop it or choose another path with %s", errSocketInUse, opts.Flag)
	case !isStale(err):
		return fmt.Errorf("checking whether another process serves it: %w", err)
	}
	return nil
}

// removeDir removes an empty directory. A container runtime makes it if a container mounts the socket before
// there is one.
func removeDir(ctx context.Context, opts ListenOptions) error {
	if err := unix.Rmdir(opts.Path); err != nil {
		return fmt.Errorf("there is a directory of that name, and removing it: %w; a container that mounts the path before there is a socket makes the directory: let the container mount %s, move the directory away, or choose another path with %s",
			err, filepath.Dir(opts.Path), opts.Flag)
	}
	klog.FromContext(ctx).Info("Removed an empty directory in place of the socket. If a container mounts the path of the socket, the container made the directory, and does not get the socket: let it mount the parent directory",
		"socket", opts.Path)
	return nil
}

// dial tests whether a process listens on the socket at the path.
func dial(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // the connection was only a test
	}
	return err
}

// isStale reports whether an error of a connect says that no process listens on the socket: its
// file is from an earlier run, or is gone.
func isStale(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if err := CheckGroup(name); err != nil {
		return 0, fmt.Errorf("the group %w", err)
	}
	if gid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(gid), nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("%w: set another with --socket-group or socketGroup", err)
	}
	return strconv.Atoi(group.Gid)
}

// Adopt returns a listener for a socket that the service manager made. Its file belongs to the
// service manager: Close does not remove it, and its mode and owner stay.
//
// If the file is removed while a Server serves the listener, the Server makes a socket of its own
// with the same mode and owner. If there is no file, or no process serves it, Adopt makes one with
// the mode and group of the options. The service manager has the socket without a file until the
// socket unit is restarted.
func Adopt(ctx context.Context, opts ListenOptions, passed *net.UnixListener) (net.Listener, error) {
	file, err := os.Lstat(opts.Path)
	if err == nil && !isStale(dial(ctx, opts.Path)) {
		if owner, ok := file.Sys().(*syscall.Stat_t); ok {
			opts.Mode, opts.Group, opts.uid = file.Mode().Perm(), strconv.FormatUint(uint64(owner.Gid), 10), int(owner.Uid)+1
		}
		return &listener{opts: opts, socket: &socket{UnixListener: passed, file: file, passed: true}}, nil
	}
	klog.FromContext(ctx).Info("The file of the service manager's socket is gone; creating the socket. To give it back to the service manager, restart the socket unit together with the service",
		"socket", opts.Path)
	_ = passed.Close() // no client can connect to it
	return Listen(ctx, opts)
}
