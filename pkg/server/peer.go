package server

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// peerID identifies the client process of a connection. The zero value is an unknown process,
// as over TCP. A process outside the PID namespace of the daemon has PID 0. All such
// processes of a user have the same peerID.
type peerID struct {
	known bool
	pid   int32
	uid   uint32
}

// String describes the process for error messages.
func (p peerID) String() string {
	if p.pid == 0 {
		return fmt.Sprintf("user %d, outside of podconfigd's PID namespace,", p.uid)
	}
	return fmt.Sprintf("process %d", p.pid)
}

type peerKey struct{}

// peerOf returns the client process of a connection.
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

// peerFrom returns the client process of the request of the context.
func peerFrom(ctx context.Context) peerID {
	id, _ := ctx.Value(peerKey{}).(peerID) // the zero value over TCP
	return id
}

func (p peerID) client(userAgent string) journal.Client {
	client := journal.Client{UserAgent: userAgent}
	if p.known {
		client.PID, client.UID = p.pid, &p.uid
	}
	return client
}
