package server

import (
	"context"
	"net"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

type peerKey struct{}

// withPeer puts who is at the other end of a connection into its context.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, cred)
}

// readerOf returns who makes the request.
func readerOf(ctx context.Context, userAgent string) journal.Reader {
	reader := journal.Reader{UserAgent: userAgent}
	if cred, ok := ctx.Value(peerKey{}).(*unix.Ucred); ok {
		reader.PID, reader.UID = cred.Pid, &cred.Uid
	}
	return reader
}
