// Package socket makes the unix sockets of the server, and parses the addresses that it listens on.
//
//	l, err := socket.Listen(ctx, socket.ListenOptions{Path: "/run/podconfigd/podconfigd.sock", Mode: 0o660})
//	if err != nil {
//		return err
//	}
//	defer l.Close() // removes the file
//
// [Listen] creates the socket file with its mode and group under another name, and then renames it.
// So no client finds a half-made socket. Listen replaces the file of a daemon that has ended. If
// another process serves the path, or the file is not a socket, Listen returns an error and does not
// touch the file. Closing the listener removes the file. [Adopt] takes a socket of the service manager.
// [Keep] creates the file again if it is removed.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/internal/loopback"
)

// Schemes of an Address.
const (
	SchemeUnix  = "unix"
	SchemeHTTP  = "http"
	SchemeHTTPS = "https"
)

// Address is an address to listen on.
type Address struct {
	Scheme string
	// Path is the path of a unix socket.
	Path string
	// Host is an IP address, "localhost", or empty for all addresses of the node. Port is 0 for
	// any port that is free.
	Host string
	Port uint16
}

// ParseAddress parses unix:///PATH, http://ADDRESS:PORT or https://ADDRESS:PORT. HTTP requires a
// loopback address.
func ParseAddress(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Address{}, fmt.Errorf("%q has no scheme: expected unix:///PATH, http://127.0.0.1:PORT or https://ADDRESS:PORT", text)
	}
	var a Address
	var err error
	switch scheme {
	case SchemeUnix:
		a, err = parseUnix(rest)
	case SchemeHTTP, SchemeHTTPS:
		a, err = parseTCP(scheme, text)
	default:
		err = fmt.Errorf("the scheme %q is unknown: expected unix, http or https", scheme)
	}
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, err)
	}
	return a, nil
}

func parseUnix(socket string) (Address, error) {
	switch {
	case !filepath.IsAbs(socket):
		return Address{}, errors.New("expected an absolute path, for example unix:///run/podconfigd/podconfigd.sock")
	case strings.HasSuffix(socket, "/"):
		return Address{}, errors.New("the path is a directory: expected the path of a socket")
	case strings.ContainsRune(socket, 0):
		return Address{}, errors.New("the path has a zero byte")
	}
	return Address{Scheme: SchemeUnix, Path: path.Clean(socket)}, nil
}

func parseTCP(scheme, text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it has the text again
		}
		return Address{}, err
	}
	if u.User != nil || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return Address{}, fmt.Errorf("expected only an address and a port, for example %s", exampleOf[scheme])
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("port %q: expected 0 to 65535, for example %s", u.Port(), exampleOf[scheme])
	}
	a := Address{Scheme: scheme, Host: u.Hostname(), Port: uint16(port)}
	switch ip, err := netip.ParseAddr(a.Host); {
	case err == nil:
		a.Host = ip.Unmap().String()
	case a.Host != loopback.Name && (a.Host != "" || scheme == SchemeHTTP):
		return Address{}, fmt.Errorf("the address %q is not an IP address: expected one, for example %s", a.Host, exampleOf[scheme])
	}
	if scheme == SchemeHTTP && !loopback.Host(a.Host) {
		return Address{}, fmt.Errorf("http is only for loopback addresses, and %s is not one: use https, or for example %s", a.Host, exampleOf[scheme])
	}
	return a, nil
}

var exampleOf = map[string]string{SchemeHTTP: "http://127.0.0.1:10255", SchemeHTTPS: "https://0.0.0.0:10250"}

// String returns the address as ParseAddress reads it.
func (a Address) String() string {
	if a.Scheme == SchemeUnix {
		return "unix://" + a.Path
	}
	return a.Scheme + "://" + a.hostPort()
}

func (a Address) hostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// Listen listens on an address of TCP.
func (a Address) Listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.hostPort())
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // it has the address again
		}
		return nil, fmt.Errorf("listening on %s: %w", a, err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); a.Scheme == SchemeHTTP && (!ok || !tcp.IP.IsLoopback()) {
		_ = l.Close() // nothing was accepted
		return nil, fmt.Errorf("listening on %s: %s is %s on this node, which is not a loopback address", a, a.Host, l.Addr())
	}
	return l, nil
}

// ListensAt reports whether a socket that listens at an address is what Listen would return. As for
// net.Listen, all addresses of IPv4 and all addresses of IPv6 are the same. Port 0 has no such
// socket, because any port fits it.
func (a Address) ListensAt(at netip.AddrPort) bool {
	if a.Scheme == SchemeUnix || a.Port == 0 || at.Port() != a.Port {
		return false
	}
	is := at.Addr().Unmap()
	switch a.Host {
	case "":
		return is.IsUnspecified()
	case loopback.Name:
		return is.IsLoopback()
	}
	want, err := netip.ParseAddr(a.Host)
	return err == nil && (is == want.Unmap() || is.IsUnspecified() && want.IsUnspecified())
}

// Same reports whether two addresses can't both be listened on.
func (a Address) Same(b Address) bool {
	if a.Scheme == SchemeUnix || b.Scheme == SchemeUnix {
		return a == b
	}
	return a.Port != 0 && a.Host == b.Host && a.Port == b.Port
}
