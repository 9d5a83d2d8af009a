package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// tokens has the users of a token file, by the hash of their token. So the time that a search takes tells
// nothing about a token.
type tokens map[[sha256.Size]byte]*user.DefaultInfo

// parseTokens parses the file of --token-auth-file: token,user,uid[,"group1,group2"].
//
// apiserver: pkg/authentication/token/tokenfile NewCSV, which ignores a line without a token.
func parseTokens(contents [][]byte) (tokens, error) {
	reader := csv.NewReader(bytes.NewReader(contents[0]))
	reader.FieldsPerRecord = -1
	found := make(tokens)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			if parse, ok := errors.AsType[*csv.ParseError](err); ok { // the text of others could have a token
				err = fmt.Errorf("line %d: %w", parse.Line, parse.Err)
			}
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		switch {
		case len(record) < 3:
			return nil, fmt.Errorf("line %d: %d columns: expected token,user,uid and optionally groups", line, len(record))
		case record[0] == "":
			return nil, fmt.Errorf("line %d: the token is empty", line)
		case record[1] == "":
			return nil, fmt.Errorf("line %d: the user is empty", line)
		}
		hash := sha256.Sum256([]byte(record[0]))
		if found[hash] != nil {
			return nil, fmt.Errorf("line %d: the token is on another line too", line)
		}
		info := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			info.Groups = slices.DeleteFunc(strings.Split(record[3], ","), func(group string) bool { return group == "" })
		}
		found[hash] = info
	}
}

// tokenFile authenticates the tokens of a file.
type tokenFile struct{ *reloaded[tokens] }

// AuthenticateToken returns the user of a token.
func (f tokenFile) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	info := f.get()[sha256.Sum256([]byte(token))]
	if info == nil {
		return nil, false, nil
	}
	return &authenticator.Response{User: info}, true, nil
}

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

// reloadInterval is the minimum time between two reads of the files.
const reloadInterval = time.Second

// reloaded is a value that is parsed from files. When the value is used and the files have changed, they
// are parsed again. If that fails, the last value stays.
type reloaded[T any] struct {
	logger klog.Logger
	files  []string
	parse  func(contents [][]byte) (T, error)

	mu sync.Mutex // guards what follows
	// checked is the time of the last read. sum is the hash of the contents.
	checked time.Time
	sum     [sha256.Size]byte
	value   T
}

// newReloaded returns the value of the files, or the reason why they can't be used.
func newReloaded[T any](logger klog.Logger, parse func(contents [][]byte) (T, error), files ...string) (*reloaded[T], error) {
	r := &reloaded[T]{logger: logger, files: files, parse: parse}
	err := r.load()
	return r, err
}

// get returns the value.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) >= reloadInterval {
		if err := r.load(); err != nil {
			r.logger.Error(err, "Could not reload a file; its last contents stay in use", "files", r.files)
		}
	}
	return r.value
}

// load parses the files if they have changed since the last attempt.
func (r *reloaded[T]) load() error {
	contents := make([][]byte, len(r.files))
	var failed error
	hash := sha256.New()
	for i, file := range r.files {
		data, err := smallfile.Read(file)
		if err != nil && failed == nil {
			failed = err
		}
		fmt.Fprintf(hash, "%d %v\n", len(data), err)
		hash.Write(data)
		contents[i] = data
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	first := r.checked.IsZero()
	r.checked = time.Now()
	if !first && sum == r.sum {
		return nil // an error of the same contents is logged only once
	}
	r.sum = sum
	if failed != nil {
		return failed
	}
	value, err := r.parse(contents)
	if err != nil {
		return err
	}
	if r.value = value; !first {
		r.logger.Info("Reloaded a file", "files", r.files)
	}
	return nil
}
