package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// Splitter accepts the connections of one listener and passes each to one of four servers:
// by protocol, and by whether the limits admit the connection. A connection that begins with
// the preface of HTTP/2 is gRPC, every other connection is HTTP/1.1.
type Splitter struct {
	listener net.Listener
	// places are the places for the connections and their requests.
	places *Places
	// tls is the configuration of TLS; nil for none.
	tls *tls.Config
	// connects limits new connections; nil for no limit. tooMany is called for each beyond it.
	connects *Rates
	tooMany  func()

	plain, h2, refusedPlain, refusedH2 *side

	mu sync.Mutex // guards refused
	// refused has the open connections that are kept only for their answer, oldest first.
	refused []*Conn
}

// side is a listener for connections that a splitter accepted.
type side struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewSplitter returns a splitter of a listener. places are the places for its clients.
func NewSplitter(l net.Listener, places *Places) *Splitter {
	made := func() *side {
		closed := make(chan struct{})
		return &side{
			addr: l.Addr(), conns: make(chan net.Conn), closed: closed,
			close: sync.OnceFunc(func() { close(closed) }),
		}
	}
	return &Splitter{listener: l, places: places, plain: made(), h2: made(), refusedPlain: made(), refusedH2: made()}
}

// Secure makes the splitter speak TLS, and limits how often an address connects. tooMany is called
// for each connection beyond that.
func (s *Splitter) Secure(config *tls.Config, tooMany func()) {
	s.tls, s.connects, s.tooMany = config, NewRates(connectsPerSecond, connectBurst), tooMany
}

// Limits of new connections to https addresses, by address. A handshake costs up to two
// milliseconds of CPU time.
const (
	connectsPerSecond = 50
	connectBurst      = 256
)

// lastTime is the time that a client has for its request if its connection was accepted just before the
// server stops. No other server can answer this request. Clients that connect later wait for the next
// daemon, if the service manager has the socket.
const lastTime = 500 * time.Millisecond

// Server serves a listener until the context is done.
type Server func(ctx context.Context, l net.Listener) error

// Run accepts connections until the context is done, and passes them to the servers. It closes the
// listener. The context of the servers is done when they have begun to answer all connections that were
// accepted: in a shutdown, net/http drops a request that it has just read.
func (s *Splitter) Run(ctx context.Context, plain, h2, refusedPlain, refusedH2 Server) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	group.Go(func() error {
		err := s.accept(ctx)
		stop(err)
		return err
	})
	for side, serve := range map[*side]Server{
		s.plain: plain, s.h2: h2, s.refusedPlain: refusedPlain, s.refusedH2: refusedH2,
	} {
		group.Go(func() error { return serve(serving, side) })
	}
	return group.Wait()
}

// acceptRetries are the waits after a temporary error of Accept, for example too many open
// files. net/http has the same waits.
var acceptRetries = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Steps: 32, Cap: time.Second}

// accept accepts connections until the context is done. It closes the listener.
func (s *Splitter) accept(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	defer s.listener.Close()
	logger := klog.FromContext(ctx).WithValues("address", s.listener.Addr())
	failures := 0
	for backoff := acceptRetries; ; {
		conn, err := s.listener.Accept()
		if err == nil {
			if failures > 0 {
				logger.Info("Accepting connections again", "failures", failures)
				failures, backoff = 0, acceptRetries
			}
			if admitted := s.admit(conn); admitted != nil {
				looking.Go(func() { s.handOn(ctx, admitted) })
			}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if failures++; failures == 1 {
			logger.Error(err, "Failed to accept a connection; retrying")
		}
		_ = await.For(ctx, backoff.Step())
	}
}

// admit counts a connection. It closes a connection that can't even be refused, and returns
// nil.
func (s *Splitter) admit(conn net.Conn) (admitted *Conn) {
	id := peerOf(conn)
	if s.connects != nil && !s.connects.Take(id) {
		_ = conn.Close() // without an answer, which would take a handshake
		s.tooMany()
		return nil
	}
	limitUnsent(conn)
	if s.tls != nil {
		conn = tls.Server(conn, s.tls)
	}
	defer func() {
		if admitted != nil {
			admitted.places = s.places
		}
	}()
	release, refusal := s.places.Connections.Take(id)
	if refusal == nil {
		return New(conn, s.listener.Addr(), nil, release)
	}
	giveBack, beyond := s.refuse(id)
	if beyond != nil {
		_ = conn.Close() // without an answer
		return nil
	}
	admitted = New(conn, s.listener.Addr(), refusal, func() {
		s.mu.Lock()
		s.refused = slices.DeleteFunc(s.refused, func(c *Conn) bool { return c == admitted })
		s.mu.Unlock()
		giveBack()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, admitted)
	return admitted
}

// refuse counts a connection that is kept only for its answer. If there are too many, it closes the oldest
// one: clients that send nothing must not keep out clients that ask for health.
func (s *Splitter) refuse(id Peer) (release func(), beyond error) {
	if release, beyond = s.places.refusals.Take(id); beyond == nil {
		return release, nil
	}
	if oldest := s.oldest(id); oldest != nil {
		oldest.abort()
		_ = oldest.Close()
		return s.places.refusals.Take(id)
	}
	return nil, beyond
}

// oldest returns the oldest connection of the peer that is kept only for its answer, or else the
// oldest of its user, or else the oldest of all peers.
func (s *Splitter) oldest(id Peer) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, same := range []func(Peer) bool{
		func(p Peer) bool { return p == id },
		func(p Peer) bool { return id.process() && p.process() && p.uid == id.uid },
	} {
		if i := slices.IndexFunc(s.refused, func(c *Conn) bool { return same(c.peer) }); i >= 0 {
			return s.refused[i]
		}
	}
	if len(s.refused) == 0 {
		return nil
	}
	return s.refused[0]
}

// handOn detects the protocol of the connection and passes it to the server for it.
func (s *Splitter) handOn(ctx context.Context, conn *Conn) {
	patience, plain, h2 := HeaderTimeout, s.plain, s.h2
	if conn.refusal != nil {
		patience, plain, h2 = RefusalTime, s.refusedPlain, s.refusedH2
	}
	_ = conn.SetDeadline(time.Now().Add(patience)) // if the connection is closed, reads fail too
	hurried := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Now().Add(lastTime))
		close(hurried)
	})
	err := handshake(context.WithoutCancel(ctx), conn)
	var head []byte
	var http2 bool
	if err == nil {
		head, http2, err = peek(conn.Conn)
	}
	if !stop() {
		<-hurried // it sets no deadline after this
	}
	if err != nil {
		conn.abort()
		_ = conn.Close() // the client has gone, or sent nothing in time
		return
	}
	_ = conn.SetDeadline(time.Time{})
	conn.head, conn.http1 = head, !http2
	to := plain
	if http2 {
		to = h2
	}
	select {
	case to.conns <- conn:
		if conn.http1 {
			conn.awaitRequest(ctx)
		}
	case <-to.closed:
		_ = conn.Close() // the server has failed
	}
}

// handshake does the handshake of TLS, if the connection has TLS. A client that speaks HTTP
// instead gets the answer that net/http has for it.
func handshake(ctx context.Context, conn *Conn) error {
	secure, ok := conn.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	err := secure.HandshakeContext(ctx)
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && speaksHTTP(plain.RecordHeader) {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("TLS handshake failed", "address", conn.RemoteAddr(), "err", err)
	}
	return err
}

// speaksHTTP reports whether a connection begins with a request of HTTP/1.
func speaksHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// peek reads until it is known whether the connection begins with the preface of HTTP/2. It
// returns the bytes that it read.
func peek(conn net.Conn) (head []byte, h2 bool, err error) {
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
func (h *side) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *side) Close() error {
	h.close()
	return nil
}

// Addr returns the address of the listener of the splitter.
func (h *side) Addr() net.Addr { return h.addr }
