package components

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a proxy between a client and a server. It can disturb the connections.
type Proxy struct {
	// Address is its address.
	Address string

	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[*net.TCPConn]bool // true for the client's side
	// down: connections are closed at once; delay: how long each piece is delayed; held:
	// nothing is forwarded until it is closed.
	down  bool
	delay time.Duration
	held  chan struct{}
}

// NewProxy runs a proxy for the host and port until the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{
		Address: listener.Addr().String(), target: target, listener: listener,
		conns: make(map[*net.TCPConn]bool), held: make(chan struct{}),
	}
	close(p.held)
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		listener.Close()
		p.Release()
		p.Delay(0)
		p.Down()
		p.running.Wait()
	})
	return p
}

// Down cuts all connections and refuses new ones until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// Up ends Down.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Connections returns the number of client connections.
func (p *Proxy) Connections() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, client := range p.conns {
		if client {
			n++
		}
	}
	return n
}

// Replace sets another server, and cuts the connections to the previous one.
func (p *Proxy) Replace(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Cut cuts all connections at once, on both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.SetLinger(0)
		conn.Close()
	}
}

// HalfClose ends only the server's half of all connections.
func (p *Proxy) HalfClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, client := range p.conns {
		if client {
			_ = conn.CloseWrite()
		}
	}
}

// Delay delays each piece.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Hold stops forwarding until Release. Connections stay open.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

// Release ends Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		client, ok := conn.(*net.TCPConn)
		if !ok {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer conn.Close()
	server, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		_ = client.SetLinger(0)
		return
	}
	p.conns[client], p.conns[server] = true, false
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { p.copy(client, server) })
	both.Wait()
}

// copy forwards data until its end or an error.
func (p *Proxy) copy(to, from *net.TCPConn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		held, delay := p.held, p.delay
		p.mu.Unlock()
		<-held
		<-time.After(delay)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err == io.EOF { //nolint:errorlint // Read returns it unwrapped
			_ = to.CloseWrite()
			return
		}
		if err != nil {
			to.Close()
			return
		}
	}
}
