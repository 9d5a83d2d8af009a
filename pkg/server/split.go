package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// splitter hands the connections of one listener to two servers: those that begin
// with the preface of HTTP/2 to one, all others to the other.
type splitter struct {
	listener net.Listener
	limits   *limiter

	plain, modern *handedOn
	// refused are those of the modern that are too many.
	refused *handedOn
}

// handedOn is a listener whose connections another one has accepted.
type handedOn struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newSplitter(l net.Listener, limits *limiter) *splitter {
	side := func() *handedOn {
		closed := make(chan struct{})
		return &handedOn{
			addr: l.Addr(), conns: make(chan net.Conn), closed: closed,
			close: sync.OnceFunc(func() { close(closed) }),
		}
	}
	return &splitter{listener: l, limits: limits, plain: side(), modern: side(), refused: side()}
}

// acceptRetries are the waits after an error of Accept that may pass, as when there are
// too many open files; net/http has the same.
var acceptRetries = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Steps: 32, Cap: time.Second}

// run accepts connections until the context is done, and closes the listener.
func (s *splitter) run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	defer s.listener.Close()
	for backoff := acceptRetries; ; {
		conn, err := s.listener.Accept()
		if err == nil {
			backoff = acceptRetries
			looking.Go(func() { s.admit(ctx, conn) })
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		pause := backoff.Step()
		klog.FromContext(ctx).Error(err, "Accepting a connection failed", "retryIn", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// admit finds out what the connection speaks and hands it on, or refuses it where its
// peer has too many.
func (s *splitter) admit(ctx context.Context, conn net.Conn) {
	id := peerOf(conn)
	release, refusal := s.limits.connection(id)
	if refusal != nil {
		var beyond error
		if release, beyond = s.limits.refusals.take(id); beyond != nil {
			_ = conn.Close() // nobody is told
			return
		}
	}
	admitted := &admittedConn{Conn: conn, refusal: refusal, release: sync.OnceFunc(release)}
	patience := headerTimeout
	if refusal != nil {
		patience = refusalTime
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails where it is closed, which reading tells too
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	head, modern, err := peek(conn)
	if err != nil || !stop() {
		_ = admitted.Close() // it is of no use
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	admitted.head, admitted.http1 = head, !modern
	side := s.plain
	switch {
	case refusal != nil && modern:
		side = s.refused
	case refusal != nil:
		refuse(conn, refusal)
		_ = admitted.Close()
		return
	case modern:
		side = s.modern
	}
	select {
	case side.conns <- admitted:
	case <-side.closed:
		_ = admitted.Close() // nobody takes it any more
	}
}

// peek reads until it is plain whether the connection begins with the preface of
// HTTP/2, and returns what it has read.
func peek(conn net.Conn) (head []byte, modern bool, err error) {
	head = make([]byte, len(http2.ClientPreface))
	for n := 0; ; {
		read, err := conn.Read(head[n:])
		n += read
		switch {
		case n > 0 && string(head[:n]) != http2.ClientPreface[:n]:
			return head[:n], false, nil
		case n == len(http2.ClientPreface):
			return head, true, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// Accept returns the next connection.
func (h *handedOn) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close has Accept return, now and later.
func (h *handedOn) Close() error {
	h.close()
	return nil
}

// Addr returns the address of the listener that accepts.
func (h *handedOn) Addr() net.Addr { return h.addr }
