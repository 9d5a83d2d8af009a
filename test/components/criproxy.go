package components

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// CRIProxy is a proxy between a client and a runtime. It can delay or fail calls.
type CRIProxy struct {
	// Socket is its CRI socket.
	Socket string

	mu    sync.Mutex
	hooks map[string]func(ctx context.Context, request []byte) error
	calls map[string]int
	// broken is closed, and replaced, to end the current calls.
	broken chan struct{}
}

// Proxy runs a proxy for the runtime until the test ends.
func (r *Runtime) Proxy(tb testing.TB) *CRIProxy {
	tb.Helper()
	p := &CRIProxy{
		Socket: filepath.Join(tb.TempDir(), "p"),
		hooks:  make(map[string]func(context.Context, []byte) error), calls: make(map[string]int), broken: make(chan struct{}),
	}
	conn, err := grpc.NewClient("unix://"+r.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("unix", p.Socket)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
		return p.forward(conn, in)
	}))
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	tb.Cleanup(func() {
		server.Stop()
		wg.Wait()
		conn.Close()
	})
	return p
}

// Before sets a function that is called before each call of a method, for example
// "ListContainers", is forwarded. If it returns an error, this is the answer. Nil removes
// it.
func (p *CRIProxy) Before(method string, hook func(ctx context.Context, request []byte) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks[method] = hook
}

// Hang makes calls of a method hang if their request contains the string, until they are
// canceled or release is called.
func (p *CRIProxy) Hang(method, containing string) (release func()) {
	released := make(chan struct{})
	p.Before(method, func(ctx context.Context, request []byte) error {
		if !strings.Contains(string(request), containing) {
			return nil
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-released:
			return nil
		}
	})
	return sync.OnceFunc(func() {
		p.Before(method, nil)
		close(released)
	})
}

// Break ends all current calls.
func (p *CRIProxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.broken)
	p.broken = make(chan struct{})
}

// Calls returns the number of calls of a method.
func (p *CRIProxy) Calls(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

// forward forwards a call with one request and one or more answers.
func (p *CRIProxy) forward(conn *grpc.ClientConn, in grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(in)
	method := name[strings.LastIndexByte(name, '/')+1:]
	var request []byte
	if err := in.RecvMsg(&request); err != nil {
		return err
	}
	p.mu.Lock()
	p.calls[method]++
	hook, broken := p.hooks[method], p.broken
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-broken:
			cancel()
		}
	}()
	if hook != nil {
		if err := hook(ctx, request); err != nil {
			return err
		}
	}
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name, grpc.ForceCodecV2(bytesCodec{}))
	if err != nil {
		return err
	}
	if err := errors.Join(out.SendMsg(&request), out.CloseSend()); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	for {
		var answer []byte
		if err := out.RecvMsg(&answer); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := in.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// bytesCodec does not change messages.
type bytesCodec struct{}

var _ encoding.CodecV2 = bytesCodec{}

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil //nolint:errcheck // nothing else is sent
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize() //nolint:errcheck // nothing else is received
	return nil
}

func (bytesCodec) Name() string { return "bytes" }
