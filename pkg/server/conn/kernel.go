package conn

import (
	"net"

	"golang.org/x/sys/unix"
)

// kernelConn returns the connection of the kernel below a connection.
func kernelConn(conn net.Conn) net.Conn {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = outer.NetConn()
	}
}

// maxUnsent is how many bytes of a TCP connection the kernel takes before it has sent them. So what a client
// does not read fills no larger buffer.
const maxUnsent = 128 << 10

// controlTCP calls f with the descriptor of a connection over TCP. It does nothing for any other connection.
func controlTCP(conn net.Conn, f func(fd int)) {
	tcp, ok := kernelConn(conn).(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // fails if it is closed
	}
}

// limitUnsent sets maxUnsent for a TCP connection. If it fails, the kernel takes as much as its buffer can grow.
func limitUnsent(conn net.Conn) {
	controlTCP(conn, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) })
}

// kernelWritable reports whether the kernel takes a few more bytes of a connection over TCP.
func kernelWritable(conn net.Conn) (writable bool) {
	controlTCP(conn, func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		writable = err != nil || n > 0
	})
	return writable
}
