package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// sockets are the listeners of the daemon. A listener that is not configured is nil.
type sockets struct {
	main, podsAPI, metrics net.Listener
	// unix are the unix sockets of Listen, http its loopback addresses, https its addresses with
	// TLS.
	unix, http, https []net.Listener
	// passed are the sockets of the service manager that are not among the others.
	passed passedSockets
}

// listen opens all sockets, or none. It takes those that the service manager passed to the
// process.
func listen(ctx context.Context, c *Config) (_ *sockets, err error) {
	s := new(sockets)
	defer func() {
		s.passed.close()
		if err != nil {
			s.close()
		}
	}()
	if c.SocketActivation {
		if s.passed, err = takeSockets(); err != nil {
			return nil, err
		}
	}
	mode, _ := parseMode(*c.SocketMode) // it is valid
	opts := server.ListenOptions{Path: *c.Socket, Flag: "--socket", Mode: mode, Group: c.SocketGroup}
	if s.main, err = s.openUnix(ctx, opts); err != nil {
		return nil, err
	}
	if c.PodsAPISocket != "" {
		opts.Path, opts.Flag = c.PodsAPISocket, "--pods-api-socket"
		if s.podsAPI, err = s.openUnix(ctx, opts); err != nil {
			return nil, err
		}
	}
	if c.MetricsBindAddress != "" {
		if s.metrics, err = s.openMetrics(ctx, c.MetricsBindAddress); err != nil {
			return nil, fmt.Errorf("--metrics-bind-address: %w", err)
		}
	}
	for _, text := range c.Listen {
		if err := s.add(ctx, text, opts); err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
	}
	return s, s.passed.left()
}

// add listens on an address of Listen.
func (s *sockets) add(ctx context.Context, text string, opts server.ListenOptions) error {
	address, err := server.ParseAddress(text)
	if err != nil {
		return err
	}
	if address.Scheme == server.SchemeUnix {
		opts.Path, opts.Flag = address.Path, "--listen"
		l, err := s.openUnix(ctx, opts)
		if err == nil {
			s.unix = append(s.unix, l)
		}
		return err
	}
	l := s.passed.tcp(address)
	if l == nil {
		if l, err = address.Listen(ctx); err != nil {
			return err
		}
	}
	if address.Scheme == server.SchemeHTTPS {
		s.https = append(s.https, l)
	} else {
		s.http = append(s.http, l)
	}
	return nil
}

// openUnix listens on a unix socket: that of the service manager, or a new one.
func (s *sockets) openUnix(ctx context.Context, opts server.ListenOptions) (net.Listener, error) {
	if passed := s.passed.unix(opts.Path); passed != nil {
		return server.Adopt(ctx, opts, passed)
	}
	return server.Listen(ctx, opts)
}

// openMetrics listens on an address of TCP, as openUnix.
func (s *sockets) openMetrics(ctx context.Context, address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil {
		if passed := s.passed.tcp(server.Address{Host: host, Port: portOf(port)}); passed != nil {
			return passed, nil
		}
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

func (s *sockets) close() {
	for _, l := range slices.Concat([]net.Listener{s.main, s.podsAPI, s.metrics}, s.unix, s.http, s.https) {
		if l != nil {
			_ = l.Close() // it may already be closed
		}
	}
}

// serve serves all sockets.
func (d *Daemon) serve(ctx context.Context, group *errgroup.Group, s *sockets) {
	group.Go(func() error { return d.server.Run(ctx, s.main) })
	for _, l := range s.unix {
		group.Go(func() error { return d.server.RunSocket(ctx, l) })
	}
	if s.podsAPI != nil {
		group.Go(func() error { return d.server.RunPodsAPI(ctx, s.podsAPI) })
	}
	if s.metrics != nil {
		group.Go(func() error { return d.server.RunMetrics(ctx, s.metrics) })
	}
	for _, l := range s.http {
		group.Go(func() error { return d.server.RunReadOnly(ctx, l) })
		klog.FromContext(ctx).Info("Serving without authentication, read-only", "address", server.SchemeHTTP+"://"+l.Addr().String())
	}
}
