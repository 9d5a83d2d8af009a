package podsapi

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Field numbers of a v1.Pod, of its metadata and of an entry of a map.
//
// kubernetes: staging/src/k8s.io/api/core/v1/generated.proto, apimachinery/pkg/apis/meta/v1/generated.proto.
const (
	podMetadata, podStatus                                            = 1, 3
	metadataName, metadataNamespace, metadataUID, metadataAnnotations = 1, 3, 5, 12
	entryKey, entryValue                                              = 1, 2
)

// pod has the parts of a pod that the Client needs. Its spec, which is the largest part, is not decoded: that would take a
// hundred times as long for a pod that has not changed.
type pod struct {
	uid    types.UID
	name   types.NamespacedName
	source string
	// seen is when the kubelet first saw the pod; zero if it does not say that.
	seen time.Time
	// raw is the encoded status, and sum its hash.
	raw []byte
	sum uint64
}

var seed = maphash.MakeSeed()

var errEncoding = errors.New("the kubelet sent a pod that is not valid protobuf")

// decode returns the parts of an encoded pod.
func decode(data []byte) (p pod, err error) {
	err = fields(data, func(field protowire.Number, value []byte) error {
		switch field {
		case podMetadata:
			return fields(value, p.metadata)
		case podStatus:
			p.raw = value
		}
		return nil
	})
	if err == nil && p.uid == "" {
		err = errors.New("the kubelet sent a pod without a UID")
	}
	p.sum = maphash.Bytes(seed, p.raw)
	return p, err
}

func (p *pod) metadata(field protowire.Number, value []byte) error {
	switch field {
	case metadataName:
		p.name.Name = string(value)
	case metadataNamespace:
		p.name.Namespace = string(value)
	case metadataUID:
		p.uid = types.UID(value)
	case metadataAnnotations:
		var key, text []byte
		err := fields(value, func(field protowire.Number, value []byte) error {
			switch field {
			case entryKey:
				key = value
			case entryValue:
				text = value
			}
			return nil
		})
		switch string(key) {
		case config.ConfigSourceAnnotationKey:
			p.source = sourceOf(text)
		case config.ConfigFirstSeenAnnotationKey:
			p.seen, _ = time.Parse(time.RFC3339Nano, string(text)) // otherwise it is not known
		}
		return err
	}
	return nil
}

// sourceOf returns the source that a kubelet names; a text that no kubelet has takes no memory.
func sourceOf(text []byte) string {
	for _, source := range []string{config.FileSource, config.HTTPSource, config.ApiserverSource} {
		if string(text) == source {
			return source
		}
	}
	return ""
}

// status decodes the status.
func (p *pod) status() (*v1.PodStatus, error) {
	status := new(v1.PodStatus)
	if err := status.Unmarshal(p.raw); err != nil {
		return nil, fmt.Errorf("decoding the status that the kubelet gave the pod %v: %w", p.name, err)
	}
	return status, nil
}

// fields calls do for each length-delimited field of a message.
func fields(data []byte, do func(field protowire.Number, value []byte) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errEncoding
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, data); n < 0 {
				return errEncoding
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errEncoding
		}
		data = data[n:]
		if err := do(field, value); err != nil {
			return err
		}
	}
	return nil
}

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
