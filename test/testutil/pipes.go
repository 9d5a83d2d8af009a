package testutil

import (
	"net"
	"sync"
)

// Pipes is a listener whose connections are in memory, for tests in virtual time.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewPipes returns a listener.
func NewPipes() *Pipes {
	closed := make(chan struct{})
	return &Pipes{conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Dial connects to the listener.
func (p *Pipes) Dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Accept returns the other end of a connection.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (p *Pipes) Close() error {
	p.close()
	return nil
}

// Addr returns a loopback address.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
