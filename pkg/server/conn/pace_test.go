package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// socketPair returns the two ends of a connection over a unix socket.
func socketPair(t *testing.T) (server *Conn, client net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = new(net.Dialer).DialContext(t.Context(), "unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), client.Close() })
	return newConn(conn, l.Addr(), nil, func() {}), client
}

// fillSocket writes until the socket's buffer is more than half full.
func fillSocket(t *testing.T, conn net.Conn) (written int64) {
	t.Helper()
	for range 30 {
		n, err := conn.Write(make([]byte, 4<<10))
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	return written
}

func TestPaceWaitsForTheClient(t *testing.T) {
	conn, client := socketPair(t)
	wait := newPace(conn).Drained
	if err := wait(t.Context()); err != nil {
		t.Errorf("with nothing written: %v", err)
	}
	written := fillSocket(t, conn)
	if err := conn.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := wait(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with everything unread and a deadline that has passed: %v, expected %v", err, os.ErrDeadlineExceeded)
	}
	if err := conn.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- wait(t.Context()) }()
	if _, err := io.CopyN(io.Discard, client, written); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the client has read everything: %v", err)
	}
}

func TestPaceEndsWithTheConnection(t *testing.T) {
	for _, side := range []string{"server", "client"} {
		t.Run(side, func(t *testing.T) {
			conn, client := socketPair(t)
			wait := newPace(conn).Drained
			fillSocket(t, conn)
			done := make(chan error)
			go func() { done <- wait(t.Context()) }()
			if side == "client" {
				client.Close()
				<-done // the next write reports the error
				return
			}
			conn.Conn.Close()
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("after the connection was closed: %v, expected %v", err, net.ErrClosed)
			}
		})
	}
}

// gRPC writes in a goroutine of its own: the pace waits for that goroutine first.
func TestPaceWaitsForGRPC(t *testing.T) {
	conn, client := socketPair(t)
	p := newPace(conn)
	const handed = 100 << 10 // more than a quarter of the buffer
	p.handed = handed
	done := make(chan error)
	go func() { done <- p.Drained(t.Context()) }()
	for range handed / (4 << 10) {
		if _, err := conn.Write(make([]byte, 4<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.CopyN(io.Discard, client, handed); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}

	p.handed = view.BatchSize
	if err := p.Drained(t.Context()); err != nil { // does not wait: it fits in any case
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	p.handed = handed
	go func() { done <- p.Drained(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("after the call was canceled: %v, expected %v", err, context.Canceled)
	}

	p.handed = handed
	go func() { done <- p.Drained(t.Context()) }()
	client.Close()
	conn.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the connection was closed: %v, expected %v", err, net.ErrClosed)
	}
}
