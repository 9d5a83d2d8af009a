package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// someAuth knows the tokens "all", and "pods" which may only get nodes/pods.
type someAuth struct{}

func (someAuth) Authenticate(r *http.Request) (user.Info, error) {
	name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name != "all" && name != "pods" {
		return nil, auth.ErrUnauthorized
	}
	return &user.DefaultInfo{Name: name, Groups: []string{"system:authenticated"}}, nil
}

func (someAuth) Proven(*http.Request) bool { return false }

func (someAuth) Authorize(_ context.Context, u user.Info, a auth.Attributes) error {
	if u.GetName() == "all" || a.Verb == "get" && a.Subresources[0] == "pods" {
		return nil
	}
	return &auth.ForbiddenError{User: u.GetName(), Attributes: a}
}

// secured is an https address of a daemon.
type secured struct {
	*daemon
	server  *Server
	address string
	roots   *x509.CertPool
}

func serveHTTPS(t *testing.T, limits conn.Limits, change ...func(*Options)) *secured {
	t.Helper()
	return serveHTTPSWith(t, someAuth{}, limits, change...)
}

// selfSigned returns one certificate for all servers: to make one takes long.
var selfSigned = sync.OnceValues(func() (*tls.Certificate, error) { return auth.SelfSigned("node", []net.IP{net.IPv4(127, 0, 0, 1)}) })

// serveHTTPSWith is serveHTTPS with another Auth.
func serveHTTPSWith(t *testing.T, guarding Auth, limits conn.Limits, change ...func(*Options)) *secured {
	t.Helper()
	s := &secured{roots: x509.NewCertPool()}
	s.daemon = serveWithLimits(t, journal.Options{}, limits, append(change, func(o *Options) {
		copied := *o
		copied.Registerer = nil
		s.server = New(copied)
	})...)
	certificate, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	s.roots.AddCert(certificate.Leaf)
	a, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := socket.Address{Scheme: socket.SchemeHTTPS, Host: "127.0.0.1"}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	go func() {
		done <- s.server.RunHTTPS(ctx, l, a.TLS(func() *tls.Certificate { return certificate }), guarding)
	}()
	t.Cleanup(func() {
		start := time.Now()
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			t.Errorf("RunHTTPS returned %v", err)
		}
		if took := time.Since(start); took > conn.DrainTimeout+endsWithin {
			t.Errorf("RunHTTPS took %v to end", took)
		}
	})
	return s
}

// client returns a client of one version of HTTP.
func (s *secured) client(t *testing.T, major int) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: major == 2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// reply is the answer to a request.
type reply struct {
	code, major int
	header      http.Header
	body        io.ReadCloser
}

// text returns the rest of the body.
func (r *reply) text(t *testing.T) string {
	t.Helper()
	data, err := io.ReadAll(r.body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *secured) do(t *testing.T, client *http.Client, method, path, token string) *reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &reply{resp.StatusCode, resp.ProtoMajor, resp.Header, resp.Body}
}

func (s *secured) grpcConn(t *testing.T, token string) (*grpc.ClientConn, context.Context) {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.roots})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return conn, ctx
}

// noSubscribers waits until there are no streams.
func (d *daemon) noSubscribers(t *testing.T) {
	t.Helper()
	testutil.Until(t, "there are no subscribers", func() bool { return len(d.journal.Status().Subscribers) == 0 })
}
