package daemon

import (
	"context"
	"fmt"
	"net"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// sockets are the listeners of the daemon. A listener that is not configured is nil.
type sockets struct {
	main, podsAPI, metrics net.Listener
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
	return s, nil
}

func (s *sockets) close() {
	for _, l := range []net.Listener{s.main, s.podsAPI, s.metrics} {
		if l != nil {
			_ = l.Close() // it may already be closed
		}
	}
}
