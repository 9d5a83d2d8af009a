package podsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// maxMessage is the maximum size of an answer. A list of all pods is one message.
const maxMessage = 64 << 20

var (
	errOurs = errors.New("podconfigd serves this socket: it is not that of a kubelet")
	errOnce = errors.New("the connection was closed")
)

// connect connects to the socket. The client does not reconnect by itself. The caller must call shut.
func (c *Client) connect(ctx context.Context) (client *grpc.ClientConn, shut func(), err error) {
	file, err := os.Stat(c.path)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the kubelet: %w", err)
	}
	c.mu.Lock()
	own := c.own
	c.mu.Unlock()
	if own != nil && os.SameFile(own, file) && own.ModTime().Equal(file.ModTime()) {
		return nil, nil, fmt.Errorf("%s: %w", c.path, errOurs)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.path)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // the error below has the path
		}
		return nil, nil, fmt.Errorf("connecting to the kubelet at %s: %w", c.path, err)
	}
	once := make(chan net.Conn, 1)
	once <- conn
	client, err = grpc.NewClient("passthrough:///kubelet",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				return nil, errOnce
			}
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		_ = conn.Close() // nothing was sent
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close() // nothing can be done about it
		_ = conn.Close()   // the client may not have taken it
	}, nil
}

// refuseOurs returns an error if a podconfigd serves the socket: this one, also through a link, or another process.
func (c *Client) refuseOurs(header metadata.MD) error {
	if len(header.Get(v1alpha1.PodsAPIHeader)) == 0 {
		return nil
	}
	if file, err := os.Stat(c.path); err == nil {
		c.mu.Lock()
		c.own = file
		c.mu.Unlock()
	}
	return fmt.Errorf("%s: %w", c.path, errOurs)
}
