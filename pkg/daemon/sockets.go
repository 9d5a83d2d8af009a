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
}

// listen opens all sockets, or none.
func listen(ctx context.Context, c *Config) (_ *sockets, err error) {
	s := new(sockets)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	opts := server.ListenOptions{Path: c.Socket, Flag: "--socket", Mode: c.SocketMode, Group: c.SocketGroup}
	if s.main, err = server.Listen(ctx, opts); err != nil {
		return nil, err
	}
	if c.PodsAPISocket != "" {
		opts.Path, opts.Flag = c.PodsAPISocket, "--pods-api-socket"
		if s.podsAPI, err = server.Listen(ctx, opts); err != nil {
			return nil, err
		}
	}
	if c.MetricsBindAddress != "" {
		if s.metrics, err = new(net.ListenConfig).Listen(ctx, "tcp", c.MetricsBindAddress); err != nil {
			return nil, fmt.Errorf("--metrics-bind-address: %w", err)
		}
	}
	for _, text := range c.Listen {
		if err := s.add(ctx, text, opts); err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
	}
	return s, nil
}

// add listens on an address of Config.Listen.
func (s *sockets) add(ctx context.Context, text string, opts server.ListenOptions) error {
	address, err := server.ParseAddress(text)
	if err != nil {
		return err
	}
	if address.Scheme == server.SchemeUnix {
		opts.Path, opts.Flag = address.Path, "--listen"
		l, err := server.Listen(ctx, opts)
		if err == nil {
			s.unix = append(s.unix, l)
		}
		return err
	}
	l, err := address.Listen(ctx)
	switch {
	case err != nil:
		return err
	case address.Scheme == server.SchemeHTTPS:
		s.https = append(s.https, l)
	default:
		s.http = append(s.http, l)
	}
	return nil
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
