package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Peer identifies the client process of a connection, or the address of a client over TCP.
// The zero value is an unknown process. A process outside the PID namespace of the daemon has
// PID 0. All such processes of a user have the same Peer.
type Peer struct {
	known bool
	pid   int32
	uid   uint32
	// network is the address over TCP: one IPv4 address, or a /64 network of IPv6, which is what
	// one host can have. All clients of loopback addresses are one peer, whatever address they
	// chose: nobody knows who they are.
	network netip.Prefix
}

// String describes the process or the address for error messages.
func (p Peer) String() string {
	switch {
	case p.network == loopbackPeer.network:
		return "loopback"
	case p.network.IsSingleIP():
		return p.network.Addr().String()
	case p.network.IsValid():
		return p.network.String()
	case p.pid == 0:
		return fmt.Sprintf("user %d, outside of podconfigd's PID namespace,", p.uid)
	}
	return fmt.Sprintf("process %d", p.pid)
}

// peerOf returns the client process of a connection, or its address.
func peerOf(conn net.Conn) Peer {
	conn = kernelConn(conn)
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		// A host can connect to its loopback addresses from each of its addresses.
		if own, ok := conn.LocalAddr().(*net.TCPAddr); ok && own.IP.IsLoopback() {
			return loopbackPeer
		}
		return networkPeer(tcp.AddrPort().Addr())
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}
	}
	var cred *unix.Ucred
	if err := control(uc, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	}); err != nil {
		return Peer{}
	}
	return Peer{known: true, pid: cred.Pid, uid: cred.Uid}
}

// control calls do with the descriptor of a connection.
func control(conn *net.UnixConn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// loopbackPeer is the peer of all loopback addresses.
var loopbackPeer = Peer{known: true, network: netip.MustParsePrefix("127.0.0.0/8")}

// process reports whether the peer is a process whose user is known.
func (p Peer) process() bool { return p.known && !p.network.IsValid() }

// trusted reports whether the peer is a process of root or of the user of the daemon, and not one
// of a user without an ID here, which the kernel may show with such an ID.
func (p Peer) trusted() bool {
	return p.process() && (p.uid == 0 || p.uid == daemonUser) && p.uid != localIDs().unknownUser
}

var daemonUser = uint32(os.Geteuid())

// networkPeer returns the peer with that address.
func networkPeer(ip netip.Addr) Peer {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() {
		return loopbackPeer
	}
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	network, err := ip.Prefix(bits)
	return Peer{known: err == nil, network: network}
}

// Process returns the process that connected to a unix socket, and a time at which it had. PID 0 is a process outside of the PID
// namespace of the daemon. It returns false for another connection.
func Process(ctx context.Context) (pid int32, connected time.Time, ok bool) {
	c := From(ctx)
	if c == nil || !c.peer.process() {
		return 0, time.Time{}, false
	}
	return c.peer.pid, c.connected, true
}

// ProcessEnded reports whether the process that connected to a unix socket has ended, so that another one can have its PID. Before
// Linux 6.5, it is not known, and ProcessEnded returns false.
func ProcessEnded(ctx context.Context) bool {
	c := From(ctx)
	if c == nil {
		return false
	}
	uc, ok := kernelConn(c.Conn).(*net.UnixConn)
	if !ok {
		return false
	}
	ended := false
	_ = control(uc, func(socket int) error { // fails only if the connection is closed
		process, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			ended = !errors.Is(err, unix.ENOPROTOOPT) // otherwise, it was reaped
			return err
		}
		defer unix.Close(process) //nolint:errcheck // nothing was written
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
		ended = n > 0 // pidfd_open(2): it is readable when the process ends
		return err
	})
	return ended
}

// HTTPClient returns the client of an HTTP request.
func HTTPClient(r *http.Request) journal.Client { return ClientOf(r.Context(), r.UserAgent()) }

// ClientOf returns the client of a request or a call.
func ClientOf(ctx context.Context, userAgent string) journal.Client {
	client := journal.Client{UserAgent: Cut(userAgent)}
	switch conn := From(ctx); {
	case conn == nil:
	case conn.peer.network.IsValid():
		client.Address, client.User = conn.RemoteAddr().String(), Cut(SubjectFrom(ctx).User)
	case conn.peer.known:
		client.PID, client.UID = conn.peer.pid, &conn.peer.uid
	}
	return client
}

// maxText is how many bytes of a text that a client chose are kept and shown.
const maxText = 256

// Cut returns at most maxText bytes of the text. The result does not keep the longer text in memory.
func Cut(text string) string {
	return printable.Cut(text, maxText)
}

// processSubject returns the user and the groups of the client process of a unix socket: the
// effective ones, with the supplementary groups. An ID that the kernel shows for all users
// without an ID here is left out.
func processSubject(conn *net.UnixConn) access.Subject {
	raw, err := conn.SyscallConn()
	if err != nil {
		return access.Subject{}
	}
	var subject access.Subject
	_ = raw.Control(func(fd uintptr) { // if the connection is closed, nobody gets the answer
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return
		}
		subject.UID, subject.GIDs = &cred.Uid, []uint32{cred.Gid}
		if groups, err := peerGroups(int(fd)); err == nil {
			subject.GIDs = append(subject.GIDs, groups...)
		}
	})
	ids := localIDs()
	if subject.UID != nil && *subject.UID == ids.unknownUser {
		subject.UID = nil
	}
	subject.GIDs = slices.Compact(slices.Sorted(slices.Values(subject.GIDs)))
	subject.GIDs = slices.DeleteFunc(subject.GIDs, func(gid uint32) bool { return gid == ids.unknownGroup })
	return subject
}

// peerGroups returns the supplementary groups of the client process. A kernel before Linux 4.13
// returns an error.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 32)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // x/sys/unix has no such call
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(groups): // the size that is needed
			groups = make([]uint32, size/4)
		default:
			return nil, errno
		}
	}
}

// noID is no user and no group: see chown(2).
const noID = 1<<32 - 1

// ids are the IDs that the kernel shows for users and groups without an ID in the user namespace
// of the daemon; noID if all have one. Then 65534 is an ordinary user.
type ids struct{ unknownUser, unknownGroup uint32 }

var localIDs = sync.OnceValue(func() ids {
	return ids{
		unknownUser:  unknownID("/proc/self/uid_map", "/proc/sys/kernel/overflowuid"),
		unknownGroup: unknownID("/proc/self/gid_map", "/proc/sys/kernel/overflowgid"),
	}
})

// unknownID reads the ID for those without an ID.
//
// user_namespaces(7), unmapped user and group IDs.
func unknownID(mapping, overflow string) uint32 {
	if lines, err := os.ReadFile(mapping); err == nil && mapsAll(string(lines)) {
		return noID
	}
	const byDefault = 65534
	text, err := os.ReadFile(overflow)
	if err != nil {
		return byDefault
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return byDefault
	}
	return uint32(id)
}

// mapsAll reports whether a mapping, as in /proc/PID/uid_map, has all IDs.
func mapsAll(lines string) bool {
	return slices.Equal(strings.Fields(lines), []string{"0", "0", strconv.Itoa(noID)})
}

type subjectKey struct{}

// WithSubject returns a context of a request of that subject.
func WithSubject(ctx context.Context, s access.Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// SubjectFrom returns the subject of the request of the context, over HTTP and gRPC. On a unix
// socket, it is the client process.
func SubjectFrom(ctx context.Context) access.Subject {
	if s, ok := ctx.Value(subjectKey{}).(access.Subject); ok {
		return s
	}
	if conn := From(ctx); conn != nil {
		return conn.subject()
	}
	return access.Subject{}
}

// subject returns the client process. The kernel took its user and groups when it connected.
func (c *Conn) subject() access.Subject {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		c.client = new(access.Subject)
		if socket, ok := c.Conn.(*net.UnixConn); ok {
			*c.client = processSubject(socket)
		}
	}
	return *c.client
}
