package main

import (
	"context"
	"fmt"
	"net"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// sockets are what the daemon listens on; those that are not wanted are nil.
type sockets struct {
	main, podsAPI, metrics net.Listener
}

// listen makes all sockets, or none.
func listen(ctx context.Context, o *daemonOptions) (_ *sockets, err error) {
	s := new(sockets)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	mode, err := o.mode()
	if err != nil {
		return nil, err
	}
	opts := server.ListenOptions{Path: o.socket, Flag: "--socket", Mode: mode, Group: o.socketGroup}
	if s.main, err = server.Listen(ctx, opts); err != nil {
		return nil, err
	}
	if o.podsAPISocket != "" {
		opts.Path, opts.Flag = o.podsAPISocket, "--pods-api-socket"
		if s.podsAPI, err = server.Listen(ctx, opts); err != nil {
			return nil, err
		}
	}
	if o.metricsAddress != "" {
		if s.metrics, err = new(net.ListenConfig).Listen(ctx, "tcp", o.metricsAddress); err != nil {
			return nil, fmt.Errorf("--metrics-bind-address: %w", err)
		}
	}
	return s, nil
}

func (s *sockets) close() {
	for _, l := range []net.Listener{s.main, s.podsAPI, s.metrics} {
		if l != nil {
			_ = l.Close() // it may be closed already
		}
	}
}
