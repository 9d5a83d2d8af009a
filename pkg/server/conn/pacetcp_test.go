package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// tcpPair returns the two ends of a connection over TCP.
func tcpPair(t *testing.T) (server *Conn, client net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	limitUnsent(conn)
	t.Cleanup(func() { _, _ = conn.Close(), client.Close() })
	return newConn(conn, l.Addr(), nil, func() {}), client
}

// fillUntil writes to a connection until a write times out, again until drained returns an error, and
// returns how much was written. drained may find room if a busy kernel sent more after the write.
func fillUntil(t *testing.T, p *Pace, want error, drained func() error) (written int64) {
	t.Helper()
	for {
		for err := error(nil); !errors.Is(err, os.ErrDeadlineExceeded); {
			if err = p.conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil { // short: nobody reads
				t.Fatal(err)
			}
			var n int
			n, err = p.conn.Write(make([]byte, 64<<10))
			if written += int64(n); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		err := drained()
		if errors.Is(err, want) {
			return written
		} else if n := unsent(t, p); err != nil || n > maxUnsent/2 {
			t.Fatalf("with %d bytes unsent, the pace returns %v, not %v", n, err, want)
		}
	}
}

// unsent returns how many bytes the kernel has not sent.
func unsent(t *testing.T, p *Pace) (n int) {
	t.Helper()
	if err := p.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// The pace waits for a client over TCP that does not read, also with gRPC, and goes on as soon
// as the client reads.
func TestPaceOverTCP(t *testing.T) {
	for _, call := range []bool{false, true} {
		conn, client := tcpPair(t)
		p := newPace(conn)
		p.call = call
		written := fillUntil(t, p, os.ErrDeadlineExceeded, func() error { return p.Drained(t.Context()) })
		endless := func() {
			if err := conn.SetWriteDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if call {
			written += fillUntil(t, p, context.Canceled, func() error {
				endless()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.Drained(ctx) }()
				cancel()
				return <-done
			})
		}
		endless()
		done := make(chan error)
		go func() { done <- p.Drained(t.Context()) }()
		if _, err := io.CopyN(io.Discard, client, written); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after the client has read everything: %v", err)
		}
	}
}

// The pace is woken also if no write was blocked before.
func TestPaceOverTCPThatNeverBlocked(t *testing.T) {
	conn, client := tcpPair(t)
	if err := client.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	p := newPace(conn)
	written := int64(0)
	for unsent(t, p) <= maxUnsent/2+8<<10 {
		n, err := conn.Write(make([]byte, 4<<10))
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	done := make(chan error)
	go func() { done <- p.Drained(t.Context()) }()
	if _, err := io.CopyN(io.Discard, client, written); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testutil.Patience):
		t.Error("the pace still waits after the client has read everything")
		_ = conn.Conn.Close()
		<-done
	}
}
