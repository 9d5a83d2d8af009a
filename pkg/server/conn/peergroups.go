package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/access"
)

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
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
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
