// Package auth authenticates and authorizes requests as the kubelet does on its port 10250.
//
//	a, err := auth.New(auth.Options{NodeName: "node1", ClientCAFile: "ca.crt", TokenReview: true, TokenTTL: time.Minute, Post: post})
//	if err != nil {
//		return err
//	}
//	user, err := a.Authenticate(r)
//	if err == nil {
//		err = a.Authorize(r.Context(), user, auth.AttributesOf(r.Method, r.URL.Path))
//	}
//
// A request proves who it is from with a client certificate or a bearer token. Bearer tokens are
// in a file, or the apiserver knows them (TokenReview). The apiserver
// decides what a user may do (SubjectAccessReview): a verb on a subresource of the node, see
// [AttributesOf].
//
// It uses the small parts of k8s.io/apiserver. docs/adr has the measurements of the large ones.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// Options configures an Auth.
type Options struct {
	// NodeName is the node whose subresources users need permission for.
	NodeName string
	// ClientCAFile has the CA certificates of client certificates; none if empty.
	ClientCAFile string
	// TokenFile has tokens and their users; none if empty.
	TokenFile string
	// TokenReview asks the apiserver about tokens. An answer is valid for TokenTTL.
	TokenReview bool
	TokenTTL    time.Duration
	// Anonymous lets requests without credentials pass, as the user system:anonymous.
	Anonymous bool
	// AlwaysAllow allows everything to users that are authenticated. Otherwise, the apiserver is
	// asked. Its answers are valid for AllowTTL and DenyTTL.
	AlwaysAllow       bool
	AllowTTL, DenyTTL time.Duration
	// Post posts JSON to a path of the apiserver, and returns the answer. It is required for
	// reviews, of tokens or of permissions.
	Post func(ctx context.Context, path string, body []byte) ([]byte, error)
	// Logger logs that a file is reloaded.
	Logger klog.Logger
}

// Auth authenticates and authorizes requests.
type Auth struct {
	opts      Options
	requests  authenticator.Request
	clientCAs *reloaded[*x509.CertPool]
	reviews   *reviews
}

// ErrUnauthorized is the error for a request without valid credentials.
var ErrUnauthorized = errors.New("Unauthorized")

// ErrUnavailable is the error if the apiserver can't be asked.
var ErrUnavailable = errors.New("the apiserver can't be asked")

// New returns an Auth. The error names the file that can't be used.
func New(opts Options) (*Auth, error) {
	a := &Auth{opts: opts, reviews: newReviews(opts)}
	var methods []authenticator.Request
	var err error
	if opts.ClientCAFile != "" {
		if a.clientCAs, err = newReloaded(opts.Logger, parseCAs, opts.ClientCAFile); err != nil {
			return nil, &FileError{Field: "authentication.x509.clientCAFile", err: err, path: opts.ClientCAFile}
		}
		methods = append(methods, requestx509.NewDynamic(a.verifyOptions, requestx509.CommonNameUserConversion))
	}
	var ofTokens []authenticator.Token
	if opts.TokenFile != "" {
		file, err := newReloaded(opts.Logger, parseTokens, opts.TokenFile)
		if err != nil {
			return nil, &FileError{Field: "authentication.tokenAuthFile", err: err, path: opts.TokenFile}
		}
		ofTokens = append(ofTokens, tokenFile{file})
	}
	if opts.TokenReview {
		ofTokens = append(ofTokens, a.reviews)
	}
	if len(ofTokens) > 0 {
		methods = append(methods, bearertoken.New(tokenunion.New(ofTokens...)))
	}
	a.requests = group.NewAuthenticatedGroupAdder(union.New(methods...))
	if opts.Anonymous {
		a.requests = union.NewFailOnError(a.requests, authenticator.RequestFunc(anonymous))
	}
	return a, nil
}

// FileError is the error for a file that can't be used.
type FileError struct {
	// Field is the field of daemon.Config, without the name of its struct.
	Field string
	path  string
	err   error
}

// Error returns the path and the reason.
func (e *FileError) Error() string { return fmt.Sprintf("reading %s: %v", e.path, e.err) }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.err }

func parseCAs(contents [][]byte) (*x509.CertPool, error) {
	certificates, err := cert.ParseCertsPEM(contents[0])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool, nil
}

func (a *Auth) verifyOptions() (x509.VerifyOptions, bool) {
	opts := requestx509.DefaultVerifyOptions()
	opts.Roots = a.clientCAs.get()
	return opts, true
}

func anonymous(*http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, true, nil
}

// Authenticate returns the user of a request, or an error that wraps ErrUnauthorized,
// ErrUnavailable or ErrNotAdmitted.
func (a *Auth) Authenticate(r *http.Request) (user.Info, error) {
	response, ok, err := a.requests.AuthenticateRequest(r)
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrNotAdmitted):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	case !ok:
		return nil, ErrUnauthorized
	}
	return response.User, nil
}

// Proven reports whether a request has a token that was valid when the daemon last had an answer about
// it, within the last hour. It says who may ask for another review, not who is authenticated. At most
// 1024 tokens are remembered.
func (a *Auth) Proven(r *http.Request) (proven bool) {
	_, _, _ = bearertoken.New(authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		_, proven = a.reviews.proven.Get(sha256.Sum256([]byte(token)))
		return nil, false, nil
	})).AuthenticateRequest(r)
	return proven
}

// Authorize returns nil if the user is allowed one of the subresources, or else a *ForbiddenError,
// or an error that wraps ErrUnavailable.
func (a *Auth) Authorize(ctx context.Context, u user.Info, attributes Attributes) error {
	if a.opts.AlwaysAllow {
		return nil
	}
	var errs []error
	for _, subresource := range attributes.Subresources {
		allowed, err := a.reviews.access(ctx, u, attributes.Verb, subresource)
		if err == nil && allowed {
			return nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return &ForbiddenError{User: u.GetName(), Attributes: attributes}
}

// ForbiddenError is the error for a request that its user is not allowed.
type ForbiddenError struct {
	User string
	Attributes
}

// Error returns the text that the kubelet has.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", e.User, e.Verb, e.Subresources)
}
