package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/daemon/systemd"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// sockets are the listeners of the daemon.
type sockets struct {
	open []opened
	// passed are the sockets of the service manager that are not taken yet.
	passed systemd.Sockets
}

// opened is a listener.
type opened struct {
	net.Listener
	serve serving
	// note is logged with the address, which has the scheme; empty for nothing.
	note, scheme string
}

// serving is what serves a listener until the context is done: a method of the server.
type serving func(*server.Server, context.Context, net.Listener) error

// listen opens all sockets, or none. If the service manager passed a socket with the same address, listen takes that.
// secure is for https addresses.
func listen(ctx context.Context, c *Config, secure *https) (_ *sockets, err error) {
	s := new(sockets)
	defer func() {
		s.passed.Close()
		if err != nil {
			s.close()
		}
	}()
	if c.SocketActivation {
		if s.passed, err = systemd.Passed(); err != nil {
			return nil, err
		}
	}
	mode, _ := parseMode(*c.SocketMode) // it is valid
	opts := socket.ListenOptions{Path: *c.Socket, Flag: "--socket", Mode: mode, Group: c.SocketGroup}
	if err := s.addUnix(ctx, opts, (*server.Server).Run); err != nil {
		return nil, err
	}
	if c.PodsAPISocket != "" {
		opts.Path, opts.Flag = c.PodsAPISocket, "--pods-api-socket"
		if err := s.addUnix(ctx, opts, (*server.Server).RunPodsAPI); err != nil {
			return nil, err
		}
	}
	if c.MetricsBindAddress != "" {
		if err := s.addMetrics(ctx, c.MetricsBindAddress); err != nil {
			return nil, fmt.Errorf("--metrics-bind-address: %w", err)
		}
	}
	for _, text := range c.Listen {
		if err := s.listen(ctx, text, opts, secure); err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
	}
	return s, s.passed.Left(fmt.Sprintf("%v, %v, %v or %v", FieldName("socket"), FieldName("podsAPISocket"), FieldName("listen"), FieldName("metricsBindAddress")))
}

// listen listens on an address of Listen.
func (s *sockets) listen(ctx context.Context, text string, opts socket.ListenOptions, secure *https) error {
	address, err := socket.ParseAddress(text)
	if err != nil {
		return err
	}
	if address.Scheme == socket.SchemeUnix {
		opts.Path, opts.Flag = address.Path, "--listen"
		return s.addUnix(ctx, opts, (*server.Server).RunSocket)
	}
	l := s.passed.TCP(address.ListensAt)
	if l == nil {
		if l, err = address.Listen(ctx); err != nil {
			return err
		}
	}
	o := opened{l, (*server.Server).RunReadOnly, "Serving without authentication, read-only", address.Scheme}
	if address.Scheme == socket.SchemeHTTPS {
		o.serve, o.note = secure.serve, "Serving with TLS, authentication and authorization"
	}
	s.open = append(s.open, o)
	return nil
}

// addUnix listens on a unix socket: that of the service manager, or a new one.
func (s *sockets) addUnix(ctx context.Context, opts socket.ListenOptions, serve serving) error {
	listen := socket.Listen
	if passed := s.passed.Unix(opts.Path); passed != nil {
		listen = func(ctx context.Context, opts socket.ListenOptions) (net.Listener, error) {
			return socket.Adopt(ctx, opts, passed)
		}
	}
	l, err := listen(ctx, opts)
	if err == nil {
		s.open = append(s.open, opened{Listener: l, serve: serve})
	}
	return err
}

// addMetrics listens on an address of TCP: that of the service manager, or a new one.
func (s *sockets) addMetrics(ctx context.Context, address string) (err error) {
	var l net.Listener
	if host, port, err := net.SplitHostPort(address); err == nil {
		l = s.passed.TCP(socket.Address{Host: host, Port: portOf(port)}.ListensAt)
	}
	if l == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err == nil {
		s.open = append(s.open, opened{Listener: l, serve: (*server.Server).RunMetrics})
	}
	return err
}

// portOf returns the port of a number or the name of a service; 0 if there is none.
func portOf(service string) uint16 {
	if port, err := strconv.ParseUint(service, 10, 16); err == nil {
		return uint16(port)
	}
	port, err := net.LookupPort("tcp", service) //nolint:noctx // it reads /etc/services and waits for nothing
	if err != nil {
		return 0
	}
	return uint16(port)
}

func (s *sockets) close() {
	for _, l := range s.open {
		_ = l.Close() // it may already be closed
	}
}

// serve serves all sockets.
func (s *sockets) serve(ctx context.Context, group *errgroup.Group, with *server.Server) {
	for _, l := range s.open {
		if l.note != "" {
			klog.FromContext(ctx).Info(l.note, "address", l.scheme+"://"+l.Addr().String())
		}
		group.Go(func() error { return l.serve(with, ctx, l.Listener) })
	}
}

// logConnections logs if the file descriptors allow fewer connections than the configuration
// requests.
func (d *Daemon) logConnections(logger klog.Logger) {
	if have, want := d.server.MaxConnections(), 2*int(*d.config.MaxSubscribers); have < want {
		logger.Info("File descriptors limit the connections of clients; raise RLIMIT_NOFILE, for example with LimitNOFILE= of systemd",
			"RLIMIT_NOFILE", descriptorLimit(), "connections", have, "wanted", want)
	}
}

// Modes of authorization.
const (
	modeWebhook     = "Webhook"
	modeAlwaysAllow = "AlwaysAllow"
)

// https has the authentication and the certificates of https addresses.
type https struct {
	auth   *auth.Auth
	config *tls.Config
	poster *apiserver.Poster // nil if the apiserver is not asked
}

// newHTTPS reads the files for https addresses. It returns nil if no https address is configured.
func (d *Daemon) newHTTPS(ctx context.Context) (_ *https, err error) {
	c := &d.config
	if !c.listensOn(socket.SchemeHTTPS) {
		return nil, nil //nolint:nilnil // there is nothing, and nothing is wrong
	}
	logger := klog.FromContext(ctx)
	h := &https{}
	opts := auth.Options{
		NodeName: string(d.node), ClientCAFile: c.Authentication.X509.ClientCAFile, TokenFile: c.Authentication.TokenAuthFile,
		TokenReview: c.reviewsTokens(), TokenTTL: c.Authentication.Webhook.CacheTTL.Duration,
		Anonymous: c.Authentication.Anonymous.Enabled, AlwaysAllow: c.Authorization.Mode == modeAlwaysAllow,
		AllowTTL: c.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DenyTTL:  c.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		Logger:   logger,
	}
	if opts.TokenReview || !opts.AlwaysAllow {
		h.poster = apiserver.NewPoster(c.Kubeconfig, userAgent())
		opts.Post = h.poster.Post
	}
	if h.auth, err = auth.New(opts); err != nil {
		return nil, ofFile(err)
	}
	certificates, err := d.certificates(ctx, logger)
	if err != nil {
		return nil, ofFile(err)
	}
	h.config = h.auth.TLS(certificates)
	if opts.Anonymous && opts.AlwaysAllow {
		logger.Info("Warning: everybody who can connect to the https addresses may read all pods: --anonymous-auth with --authorization-mode=AlwaysAllow")
	}
	return h, nil
}

// ofFile adds to the error of a file the field that has its path.
func ofFile(err error) error {
	if file, ok := errors.AsType[*auth.FileError](err); ok {
		return fmt.Errorf("%v: %w", FieldName(file.Field), err)
	}
	return err
}

// certificates returns the certificate of https addresses. Like the kubelet, the daemon makes one if
// none is configured. Unlike the kubelet, it does not store it.
func (d *Daemon) certificates(ctx context.Context, logger klog.Logger) (auth.Certificates, error) {
	c := &d.config
	if c.TLSCertFile != "" {
		return auth.CertificateFiles(logger, c.TLSCertFile, c.TLSPrivateKeyFile)
	}
	texts := d.self.addresses.now(ctx)
	for _, listen := range c.Listen {
		if address, err := socket.ParseAddress(listen); err == nil {
			texts = append(texts, address.Host)
		}
	}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, text := range texts {
		if ip := net.ParseIP(text); ip != nil && !ip.IsUnspecified() {
			addresses = append(addresses, ip)
		}
	}
	certificate, err := auth.SelfSigned(string(d.node), addresses)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for https: %w", err)
	}
	logger.Info("Made a self-signed certificate for https, because there is no --tls-cert-file; it changes with each start",
		"sha256", fmt.Sprintf("%x", sha256.Sum256(certificate.Certificate[0])), "notAfter", certificate.Leaf.NotAfter)
	return func() *tls.Certificate { return certificate }, nil
}

// serve serves a listener.
func (h *https) serve(s *server.Server, ctx context.Context, l net.Listener) error { //nolint:revive // as the methods of the server
	return s.RunHTTPS(ctx, l, h.config, h.auth)
}

func (h *https) close() {
	if h != nil && h.poster != nil {
		h.poster.Close()
	}
}

// reviewsTokens reports whether the apiserver reviews tokens: if that is configured, or if
// there is no other way to authenticate.
func (c *Config) reviewsTokens() bool {
	a := &c.Authentication
	return a.Webhook.Enabled || a.X509.ClientCAFile == "" && a.TokenAuthFile == "" && !a.Anonymous.Enabled && c.apiserver()
}
