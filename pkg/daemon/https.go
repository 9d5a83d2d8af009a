package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

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
