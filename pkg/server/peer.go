package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// peerID identifies the client process of a connection, or the address of a client over TCP.
// The zero value is an unknown process. A process outside the PID namespace of the daemon has
// PID 0. All such processes of a user have the same peerID.
type peerID struct {
	known bool
	pid   int32
	uid   uint32
	// network is the address over TCP: one IPv4 address, or a /64 network of IPv6, which is what
	// one host can have.
	network netip.Prefix
}

// String describes the process or the address for error messages.
func (p peerID) String() string {
	switch {
	case p.network.IsSingleIP():
		return p.network.Addr().String()
	case p.network.IsValid():
		return p.network.String()
	case p.pid == 0:
		return fmt.Sprintf("user %d, outside of podconfigd's PID namespace,", p.uid)
	}
	return fmt.Sprintf("process %d", p.pid)
}

type peerKey struct{}

// peerOf returns the client process of a connection, or its address.
func peerOf(conn net.Conn) peerID {
	conn = kernelConn(conn)
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return networkOf(tcp.AddrPort().Addr())
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

// networkOf returns the peer with that address.
func networkOf(ip netip.Addr) peerID {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() && !ip.IsLoopback() {
		bits = 64
	}
	network, err := ip.Prefix(bits)
	return peerID{known: err == nil, network: network}
}

// peerFrom returns the client process of the request of the context.
func peerFrom(ctx context.Context) peerID {
	id, _ := ctx.Value(peerKey{}).(peerID)
	return id
}
