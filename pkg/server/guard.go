package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/auth"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/pkg/server/internal/page"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
	"github.com/podconfigd/podconfigd/pkg/server/rpc"
)

// Auth authenticates and authorizes requests; see [auth.Auth].
type Auth interface {
	// Authenticate returns the user of a request. It uses only the state of TLS and the header
	// Authorization.
	Authenticate(r *http.Request) (user.Info, error)
	// Proven reports whether the apiserver lately said that the token of a request is valid.
	Proven(r *http.Request) bool
	// Authorize returns nil if the user has the permission.
	Authorize(ctx context.Context, u user.Info, attributes auth.Attributes) error
}

// Limits of authentications that fail, by address. The apiserver is not asked about tokens of an
// address that has used up its burst. Other clients of that address, which can be a gateway or a
// node, pass if their credentials can be checked without the apiserver, or if their token is proven.
const (
	failuresPerSecond = 1
	failureBurst      = 20
	// maxReviews is how many tokens are reviewed at a time. An address has at most failureBurst of
	// them. maxPending is how many requests of an address are authenticated at a time.
	maxReviews = 256
	maxPending = 256
	// maxRefusing is how many answers to refused requests an address may leave unread.
	maxRefusing = 64
)

// guard passes on requests that are authenticated and authorized.
type guard struct {
	auth    Auth
	metrics *metrics
	// failing limits the requests without valid credentials.
	failing *conn.Rates
	// proven has the places of requests with a proven token, others those of all other requests.
	others, proven authPlaces
	// refusals counts the refused requests whose answer is not read.
	refusals *conn.Counter
	// lines limits the log of denials.
	lines *backend.Lines
}

func newGuard(a Auth, m *metrics) *guard {
	return &guard{
		auth: a, metrics: m, failing: conn.NewRates(failuresPerSecond, failureBurst), lines: backend.NewLines(),
		refusals: conn.NewCounter("refused requests at a time", math.MaxInt, maxRefusing),
		others:   newAuthPlaces(failureBurst), proven: newAuthPlaces(maxReviews),
	}
}

// authPlaces limits the requests that are being authenticated. Requests with a proven token have their own
// places, so that other requests of the same address can't take them.
type authPlaces struct {
	// pending counts the requests, reviews the tokens that are being reviewed.
	pending, reviews *conn.Counter
}

// newAuthPlaces returns places. reviews is the maximum number of reviews of an address at a time.
func newAuthPlaces(reviews int) authPlaces {
	return authPlaces{
		pending: conn.NewCounter("requests to authenticate at a time", math.MaxInt, maxPending),
		reviews: conn.NewCounter("tokens to review at a time", maxReviews, reviews),
	}
}

// guard passes on the requests that are allowed, with their subject in the context.
func (g *guard) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn := conn.From(r.Context()); conn != nil {
			r.TLS = conn.TLSState()
		}
		u, err := g.authenticate(w, r)
		if err != nil {
			return
		}
		err = g.auth.Authorize(r.Context(), u, auth.AttributesOf(r.Method, r.URL.Path))
		if errors.Is(err, auth.ErrUnavailable) {
			g.unavailable(w, r, err)
			return
		}
		if err != nil {
			g.log(r, "forbidden", u.GetName()+" "+err.Error(), err)
			g.refuse(w, r, http.StatusForbidden, err.Error())
			return
		}
		subject := access.Subject{Authenticated: true, User: u.GetName(), Groups: u.GetGroups()}
		next.ServeHTTP(w, r.WithContext(conn.WithSubject(r.Context(), subject)))
	})
}

// open serves the page's files without authentication: they contain nothing about the node. An address may
// have as many unread files as unread refusals.
func (g *guard) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !page.Wanted(r) {
			next.ServeHTTP(w, r)
			return
		}
		done, beyond := g.refusals.Take(conn.PeerFrom(r.Context()))
		if beyond != nil {
			panic(http.ErrAbortHandler)
		}
		defer done()
		page.Serve(w, r)
	})
}

// authenticate returns the user of a request. If it returns an error, it has answered the request.
func (g *guard) authenticate(w http.ResponseWriter, r *http.Request) (user.Info, error) {
	peer := conn.PeerFrom(r.Context())
	proven, places := g.auth.Proven(r), &g.others
	if proven {
		places = &g.proven
	}
	done, refusal := places.pending.Take(peer)
	if refusal != nil {
		g.tooMany(w, r, peer, 0)
		return nil, refusal
	}
	defer done()
	wait := g.failing.Wait(peer)
	u, err := g.auth.Authenticate(r.WithContext(auth.WithAdmission(r.Context(), func() (func(), bool) {
		if !proven && g.failing.Wait(peer) > 0 {
			return nil, false
		}
		done, refusal := places.reviews.Take(peer)
		return done, refusal == nil
	})))
	switch {
	case err == nil:
		return u, nil
	case errors.Is(err, auth.ErrUnavailable):
		g.unavailable(w, r, err)
	case wait > 0 && !proven, errors.Is(err, auth.ErrNotAdmitted):
		g.tooMany(w, r, peer, wait)
	default:
		g.failing.Take(peer)
		g.log(r, "unauthorized", peer.String(), err)
		g.refuse(w, r, http.StatusUnauthorized, "Unauthorized")
	}
	return nil, err
}

// tooMany refuses a request because of the failures of its address.
func (g *guard) tooMany(w http.ResponseWriter, r *http.Request, peer conn.Peer, wait time.Duration) {
	g.metrics.rejections.WithLabelValues("rate").Inc()
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	g.refuse(w, r, http.StatusTooManyRequests,
		fmt.Sprintf("too many requests of %v without valid credentials: try again later", peer))
}

// unavailable refuses a request because the apiserver can't be asked. The client gets no details.
func (g *guard) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	g.log(r, "unavailable", "", err)
	g.refuse(w, r, http.StatusServiceUnavailable,
		auth.ErrUnavailable.Error()+" whether the request is allowed: try again later")
}

// refuse answers a request that is not allowed. A client may not read the answers on its streams of
// HTTP/2. If an address has too many unread answers, further streams are reset.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	done, beyond := g.refusals.Take(conn.PeerFrom(r.Context()))
	if beyond != nil {
		panic(http.ErrAbortHandler)
	}
	defer done()
	deny(w, r, status, message)
	if r.ProtoMajor == 2 && !isGRPC(r) { // a call has no body
		_ = http.NewResponseController(w).Flush() // waits for the client
	}
}

// log counts a denial, and logs it once for each subject.
func (g *guard) log(r *http.Request, reason, subject string, err error) {
	g.metrics.rejections.WithLabelValues(reason).Inc()
	if !g.lines.First(reason + " " + conn.Cut(subject)) {
		return
	}
	klog.FromContext(r.Context()).Info("Denied a request; further ones of this subject are not logged for an hour",
		"reason", reason, "address", r.RemoteAddr, "method", conn.Cut(r.Method), "path", conn.Cut(r.URL.Path), "err", err)
}

// deny answers a request, or a call of gRPC.
func deny(w http.ResponseWriter, r *http.Request, status int, message string) {
	if !isGRPC(r) {
		respond.Error(w, status, message)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(int(rpc.Code(apistatus.New(status, message)))))
	w.Header().Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(message), "+", " "))
	w.WriteHeader(http.StatusOK) // without a body, the header is all of the answer
}
