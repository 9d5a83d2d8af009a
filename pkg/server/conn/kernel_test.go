package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// What a client over TCP does not read fills a small part of the kernel's buffer only.
func TestUnsentOverTCP(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	limitUnsent(conn)
	if !kernelWritable(conn) {
		t.Error("a new connection is not writable")
	}
	written := int64(0)
	for err = error(nil); err == nil; {
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // short: nobody reads
		var n int
		n, err = conn.Write(make([]byte, 16<<10))
		written += int64(n)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	unsent := 0
	controlTCP(conn, func(fd int) { unsent, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQNSD) })
	if unsent > 2*maxUnsent {
		t.Errorf("%d bytes are in the buffer and not sent, want about %d", unsent, maxUnsent)
	}
	if _, err := io.CopyN(io.Discard, client, written); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the connection is writable again", func() bool { return kernelWritable(conn) })
}
