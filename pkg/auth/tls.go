package auth

import (
	"crypto/tls"
	"net"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// Certificates returns the certificate of the server for a handshake.
type Certificates func() *tls.Certificate

// CertificateFiles returns the certificate of two files, which are reloaded.
func CertificateFiles(logger klog.Logger, certFile, keyFile string) (Certificates, error) {
	r, err := newReloaded(logger, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}, certFile, keyFile)
	if err != nil {
		return nil, &FileError{Field: "tlsCertFile", err: err, path: certFile + " and " + keyFile}
	}
	return r.get, nil
}

// SelfSigned returns a new certificate for the names, which is not kept anywhere. As for the kubelet, it is valid for a year.
func SelfSigned(node string, addresses []net.IP) (*tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey(node, addresses, []string{"localhost"})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &pair, err
}

// TLS returns the configuration of TLS for a server.
func (a *Auth) TLS(certificates Certificates) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificates(), nil },
	}
	if a.clientCAs == nil {
		return config
	}
	// A certificate is only requested: it is verified for each request, so that a change of the
	// CA certificates has an effect on open connections.
	config.ClientAuth = tls.RequestClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		own := config.Clone()
		own.GetConfigForClient = nil
		own.ClientCAs = a.clientCAs.get() // tells clients which certificate to send
		return own, nil
	}
	return config
}
