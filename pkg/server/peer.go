package server

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// peerID is the process at the other end of a connection. Its zero value stands for
// one that is not known, as over TCP. One that is outside of the daemon's PID namespace has
// no PID here: then all of its user's are one.
type peerID struct {
	known bool
	pid   int32
	uid   uint32
}

// String says which process it is, as the limits count it.
func (p peerID) String() string {
	if p.pid == 0 {
		return fmt.Sprintf("user %d, outside of podconfigd's PID namespace,", p.uid)
	}
	return fmt.Sprintf("process %d", p.pid)
}

type peerKey struct{}

// peerOf returns who is at the other end of a connection.
func peerOf(conn net.Conn) peerID {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = inner.NetConn()
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return peerID{}
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return peerID{}
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return peerID{}
	}
	return peerID{known: true, pid: cred.Pid, uid: cred.Uid}
}

// peerFrom returns who makes the request of the context.
func peerFrom(ctx context.Context) peerID {
	id, _ := ctx.Value(peerKey{}).(peerID) // not there over TCP
	return id
}

func (p peerID) client(userAgent string) journal.Client {
	client := journal.Client{UserAgent: userAgent}
	if p.known {
		client.PID, client.UID = p.pid, &p.uid
	}
	return client
}
