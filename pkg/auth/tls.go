package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"slices"

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

// selfSignedFor is the validity of a self-signed certificate. The kubelet has the same.
const selfSignedFor = 365 * 24 * time.Hour

// SelfSigned returns a new certificate for the names, which is not kept anywhere.
func SelfSigned(node string, addresses []net.IP) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("%s@%d", node, now.Unix())},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedFor),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{node, "localhost"}, IPAddresses: addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// selfSignedRenewal is the time before its expiry at which a self-signed certificate is replaced.
const selfSignedRenewal = 30 * 24 * time.Hour

// SelfSignedCertificates returns a certificate of SelfSigned. It replaces it before it expires, and when the machine has an
// address that the certificate has not.
func SelfSignedCertificates(logger klog.Logger, node string, addresses func() []net.IP) (Certificates, error) {
	var mu sync.Mutex // guards current and all
	var current *tls.Certificate
	var all []net.IP // an address that comes and goes makes one certificate
	grow := func() (grown bool) {
		for _, address := range addresses() {
			if !slices.ContainsFunc(all, address.Equal) {
				all, grown = append(all, address), true
			}
		}
		return grown
	}
	renew := func() error {
		certificate, err := SelfSigned(node, all)
		if err != nil {
			return err
		}
		current = certificate
		logger.Info("Made a self-signed certificate for https, because there is no --tls-cert-file; it changes with each start, and when the node gets another address",
			"sha256", fmt.Sprintf("%x", sha256.Sum256(current.Certificate[0])), "notAfter", current.Leaf.NotAfter)
		return nil
	}
	get := func() *tls.Certificate {
		mu.Lock()
		defer mu.Unlock()
		if grow() || time.Until(current.Leaf.NotAfter) < selfSignedRenewal {
			if err := renew(); err != nil {
				logger.Error(err, "Could not make a certificate for https")
			}
		}
		return current
	}
	grow()
	return get, renew()
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
