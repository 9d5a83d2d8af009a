package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// A call of gRPC waits until what it sent is written, for each batch, and no longer than its connection or its
// context.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		conn := newConn(server, &net.UnixAddr{}, nil, func() {})
		p := CallPace(With(t.Context(), conn))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		send := func(ctx context.Context) (waits bool) {
			p.HandOver(view.BatchSize)
			go func() { done <- p.Wait(ctx) }()
			synctest.Wait()
			return len(done) == 0
		}
		p.HandOver(view.BatchSize - 1)
		if err := p.Wait(t.Context()); err != nil { // less than a batch does not wait
			t.Error(err)
		}
		p.HandOver(-(view.BatchSize - 1))

		if !send(t.Context()) {
			t.Error("a call does not wait until its batch is written")
		}
		go func() { _, _ = conn.Write(make([]byte, view.BatchSize)) }()
		if _, err := io.CopyN(io.Discard, client, view.BatchSize); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after all was written: %v", err)
		}

		if !send(ctx) {
			t.Error("a call does not wait for its second batch")
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("after the call was canceled: %v", err)
		}

		if !send(t.Context()) {
			t.Error("a call does not wait for its third batch")
		}
		_ = conn.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the connection was closed: %v", err)
		}
	})
}
