package systemd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Sockets are the listening sockets that the service manager passed to the process, and that are not taken yet.
//
// The address of a socket says which listener of the configuration it is. The name that the service manager
// gives it (FileDescriptorName=) is only for errors: clients use the address.
type Sockets []passedSocket

type passedSocket struct {
	net.Listener
	name string
}

// Passed returns the sockets that the service manager passed to the process, if any. It
// removes them from the environment, so that credential plugins do not inherit it.
//
// sd_listen_fds(3), systemd.socket(5).
func Passed() (_ Sockets, err error) {
	files := activation.Files(true)
	var all Sockets
	var faults []error
	for _, f := range files {
		l, err := listenerOf(f)
		if err != nil {
			faults = append(faults, fmt.Errorf("socket activation: the service manager passed file descriptor %d, %q: %w", f.Fd(), f.Name(), err))
		} else {
			all = append(all, passedSocket{l, f.Name()})
		}
		_ = f.Close() // the listener has a copy
	}
	if err := errors.Join(faults...); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// listenerOf returns the listener of a file.
func listenerOf(f *os.File) (net.Listener, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var kind, listens int
	var kindErr, listensErr error
	if err := raw.Control(func(fd uintptr) {
		kind, kindErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
		listens, listensErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	}); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(kindErr, unix.ENOTSOCK):
		return nil, errors.New("it is not a socket: expected only ListenStream= in the socket unit")
	case kindErr != nil:
		return nil, fmt.Errorf("reading its type: %w", kindErr)
	case kind != unix.SOCK_STREAM:
		return nil, errors.New("it is not a stream socket: expected only ListenStream= in the socket unit")
	case listensErr != nil:
		return nil, fmt.Errorf("reading its state: %w", listensErr)
	case listens == 0:
		return nil, errors.New("it does not listen: set Accept=no in the socket unit")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	switch l := l.(type) {
	case *net.UnixListener:
		l.SetUnlinkOnClose(false) // the file belongs to the service manager
	case *net.TCPListener:
	default:
		_ = l.Close() // nothing was accepted
		return nil, fmt.Errorf("its address family is %s: expected a unix socket or TCP", l.Addr().Network())
	}
	return l, nil
}

// Unix takes the unix socket with that path; nil if there is none.
func (p *Sockets) Unix(path string) *net.UnixListener {
	l, _ := p.pop(func(l net.Listener) bool {
		at, ok := l.Addr().(*net.UnixAddr)
		return ok && samePath(at.Name, path)
	}).(*net.UnixListener)
	return l
}

// samePath reports whether two paths lead to the same socket file.
func samePath(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// TCP takes the socket that listens at an address of TCP; nil if there is none.
func (p *Sockets) TCP(listensAt func(netip.AddrPort) bool) net.Listener {
	return p.pop(func(l net.Listener) bool {
		at, ok := l.Addr().(*net.TCPAddr)
		return ok && listensAt(at.AddrPort())
	})
}

// pop removes the first socket that fits, and returns its listener; nil if there is none.
func (p *Sockets) pop(fits func(net.Listener) bool) net.Listener {
	i := slices.IndexFunc(*p, func(s passedSocket) bool { return fits(s.Listener) })
	if i < 0 {
		return nil
	}
	taken := (*p)[i].Listener
	*p = slices.Delete(*p, i, i+1)
	return taken
}

// Left returns an error for the sockets that were not taken. fields names the fields of the configuration that can
// take a socket.
func (p Sockets) Left(fields string) error {
	var errs []error
	for _, s := range p {
		errs = append(errs, fmt.Errorf("socket activation: the service manager passed the socket %s (%q), which is not in the configuration, or passed it twice: set it with %s, or remove it from the socket unit",
			s.Addr(), s.name, fields))
	}
	return errors.Join(errs...)
}

// Close closes the sockets that were not taken.
func (p Sockets) Close() {
	for _, s := range p {
		_ = s.Close() // the service manager has it too
	}
}
