package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// maxSocketPath is how many bytes the path of a unix socket may have on Linux.
const maxSocketPath = 107

// ErrSocketInUse is returned where another process serves the socket.
var ErrSocketInUse = errors.New("another process is serving it")

// ListenOptions say how the socket is made.
type ListenOptions struct {
	Path string
	// Flag is what names the path, for error messages.
	Flag string
	// Mode is the file's mode.
	Mode fs.FileMode
	// Group is the name or number of the file's group; empty for the process's.
	Group string
}

// Listen makes the socket and listens on it. Its directory is made where it is
// missing. A Server that serves the listener makes the file again when it is gone.
func Listen(ctx context.Context, opts ListenOptions) (net.Listener, error) {
	made, err := listen(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("making the socket %s: %w", opts.Path, err)
	}
	return &listener{opts: opts, socket: made}, nil
}

// socket is a socket and its file, as it was made.
type socket struct {
	*net.UnixListener
	file fs.FileInfo
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
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := checkFree(ctx, opts); err != nil {
		return nil, err
	}

	// The file gets its mode under another name, and its name by a rename: nobody
	// finds it half made, and a stale one is replaced in one step.
	temp := filepath.Join(dir, "."+randomName())
	if n := max(len(temp), len(opts.Path)); n > maxSocketPath {
		return nil, fmt.Errorf("the path is too long by %d bytes: a unix socket's may have %d, less %d for its making",
			n-maxSocketPath, maxSocketPath, max(0, len(temp)-len(opts.Path)))
	}
	inner, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	inner.SetUnlinkOnClose(false)
	defer func() {
		if err != nil {
			_ = inner.Close() // the first error is the one to tell
			_ = os.Remove(temp)
		}
	}()
	if err := os.Chown(temp, -1, gid); err != nil {
		return nil, err
	}
	if err := os.Chmod(temp, opts.Mode); err != nil {
		return nil, err
	}
	made, err := os.Lstat(temp)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(temp, opts.Path); err != nil {
		return nil, err
	}
	return &socket{inner, made}, nil
}

// checkFree returns an error where the path is taken by anything but a socket that
// nobody serves.
func checkFree(ctx context.Context, opts ListenOptions) error {
	path := opts.Path
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("there is a file of that name that is not a socket; move it away or choose another path with %s", opts.Flag)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // it was only to see whether anyone answers
		return fmt.Errorf("%w; stop it or choose another path with %s", ErrSocketInUse, opts.Flag)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil // nobody listens any more: it is left over
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("finding out whether it is served: %w", err)
}

// lockDir keeps other daemons from making a socket in the directory until unlock
// is called. It leaves no file behind.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil // closing it unlocks it
}

func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if gid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(gid), nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("--socket-group: %w", err)
	}
	return strconv.Atoi(group.Gid)
}

func randomName() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}
