package conn

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Limits prevents one client from taking what other clients need. A peer is a client
// process. All processes of a user that are outside the PID namespace of the daemon are one
// peer. Over TCP, a peer is an IPv4 address or a /64 network of IPv6, and all loopback addresses
// are one peer. The sockets, the loopback addresses and the https addresses have these limits
// separately. On the sockets, users have parts of them: see commonPart. A limit of 0 is its default.
type Limits struct {
	// Subscribers and SubscribersPerPeer limit the open streams. They also limit the lookups
	// that wait.
	Subscribers, SubscribersPerPeer int
	// Lists and ListsPerPeer limit the lists that are sent at the same time.
	Lists, ListsPerPeer int
	// Scrapes limits the answers of /metrics that are sent over TCP at the same time.
	Scrapes int
	// Connections and ConnectionsPerPeer limit the open connections to sockets, and also those
	// to loopback addresses. The default is twice the limit of subscribers.
	Connections, ConnectionsPerPeer int
	// RemoteConnections and RemoteConnectionsPerPeer limit the open connections to https
	// addresses.
	RemoteConnections, RemoteConnectionsPerPeer int
	// ScrapeConnections limits the open connections over TCP.
	ScrapeConnections int
	// Network is true if the server listens on TCP addresses other than those of RunMetrics.
	Network bool
	// Descriptors limits the file descriptors of all connections together. 0 is no limit.
	Descriptors int
	// ListTimeout is the time in which a client must read a list, or any other answer that is
	// not a stream.
	ListTimeout time.Duration
}

// Defaults of Limits. A node has a few dozen agents.
const (
	DefaultMaxSubscribers        = 1024
	DefaultMaxSubscribersPerPeer = 256
	defaultMaxLists              = 64
	defaultMaxListsPerPeer       = 16
	defaultMaxScrapes            = 16
	defaultMaxScrapeConnections  = 64
	defaultListTimeout           = 30 * time.Second

	// A connection over TLS costs about 40 KB before it is authenticated. Over HTTP/2, it has many
	// streams.
	defaultMaxRemoteConnections        = 512
	defaultMaxRemoteConnectionsPerPeer = 128
)

// RefusalTime is the time in which a connection beyond the limit must begin with a request. Of gRPC, such a
// connection ends after that time.
const RefusalTime = time.Second

// Limits of the connections that are kept only for their answer. Connections beyond them are
// closed without an answer.
const (
	maxRefusals        = 256
	maxRefusalsPerPeer = 32
	maxScrapeRefusals  = 8
)

// Limiter counts what each peer uses.
type Limiter struct {
	// Sockets, Local and Remote are the places on sockets, on loopback addresses and on https addresses.
	// Metrics are the places on addresses that serve only metrics: there, a list is a scrape.
	Sockets, Local, Remote, Metrics Places
	ListTimeout                     time.Duration
}

// Places counts what clients use on one kind of address.
type Places struct {
	// Connections counts the connections, refusals those beyond the limit that are kept for their answer.
	Connections, refusals Counter
	Subscribers, Lists    Counter
	// Waits counts the lookups that wait.
	Waits Counter
	// Calls counts the calls of gRPC, and over https all requests, until they end.
	Calls Counter
}

// callsPerSubscriber is how many open calls are allowed for each stream that is allowed: a stream, a
// lookup that waits, and one more.
const callsPerSubscriber = 3

func newPlaces(l Limits, connections, connectionsPerPeer, refusals, refusalsPerPeer int) Places {
	all, each := cmp.Or(l.Subscribers, DefaultMaxSubscribers), cmp.Or(l.SubscribersPerPeer, DefaultMaxSubscribersPerPeer)
	return Places{
		Subscribers: Counter{what: "subscribers", all: all, each: each},
		Lists:       Counter{what: "lists at a time", all: cmp.Or(l.Lists, defaultMaxLists), each: cmp.Or(l.ListsPerPeer, defaultMaxListsPerPeer)},
		Waits:       Counter{what: "lookups that wait", all: all, each: each},
		Calls:       Counter{what: "open calls", all: max(minCalls, callsPerSubscriber*all), each: max(minCalls, callsPerSubscriber*each)},
		Connections: Counter{what: "connections", all: cmp.Or(connections, 2*all), each: cmp.Or(connectionsPerPeer, 2*each)},
		refusals:    Counter{what: "refusals", all: refusals, each: refusalsPerPeer},
	}
}

// minCalls is the smallest limit of open calls.
const minCalls = 64

// NewLimiter returns a limiter with the limits. refused counts the refusals by limit; nil for none.
func NewLimiter(l Limits, refused *prometheus.CounterVec) *Limiter {
	limits := &Limiter{
		Sockets: newPlaces(l, l.Connections, l.ConnectionsPerPeer, maxRefusals, maxRefusalsPerPeer),
		Local:   newPlaces(l, l.Connections, l.ConnectionsPerPeer, maxRefusals, maxRefusalsPerPeer),
		Remote: newPlaces(l, cmp.Or(l.RemoteConnections, defaultMaxRemoteConnections),
			cmp.Or(l.RemoteConnectionsPerPeer, defaultMaxRemoteConnectionsPerPeer), maxScrapeRefusals, 1),
		Metrics: Places{
			Lists:       Counter{what: "scrapes at a time", all: cmp.Or(l.Scrapes, defaultMaxScrapes)},
			Connections: Counter{what: "connections", all: cmp.Or(l.ScrapeConnections, defaultMaxScrapeConnections)},
			refusals:    Counter{what: "refusals", all: maxScrapeRefusals},
		},
		ListTimeout: cmp.Or(l.ListTimeout, defaultListTimeout),
	}
	if n := l.Descriptors; n > 0 {
		limits.share(n, l.Network)
	}
	if refused != nil {
		limits.count(refused)
	}
	return limits
}

// Set changes the limits; see Server.SetLimits.
func (l *Limiter) Set(limits Limits) {
	next := NewLimiter(limits, nil).counters()
	for i, c := range l.counters() {
		c.setLimits(next[i])
	}
}

// count counts the refusals of each limit.
func (l *Limiter) count(refused *prometheus.CounterVec) {
	for _, p := range l.places() {
		p.Subscribers.refused = refused.WithLabelValues("subscribers")
		p.Lists.refused = refused.WithLabelValues("lists")
		p.Waits.refused = refused.WithLabelValues("waits")
		p.Calls.refused = refused.WithLabelValues("calls")
		p.Connections.refused = refused.WithLabelValues("connections")
	}
	l.Metrics.Lists.refused = refused.WithLabelValues("scrapes")
}

func (l *Limiter) places() []*Places {
	return []*Places{&l.Sockets, &l.Local, &l.Remote, &l.Metrics}
}

func (l *Limiter) counters() (all []*Counter) {
	for _, p := range l.places() {
		all = append(all, &p.Subscribers, &p.Lists, &p.Waits, &p.Calls, &p.Connections, &p.refusals)
	}
	return all
}

// share divides the file descriptors among the kinds of connections. Each kind gets at least
// one.
func (l *Limiter) share(descriptors int, network bool) {
	left := descriptors
	small := []*Counter{&l.Metrics.refusals, &l.Metrics.Connections, &l.Sockets.refusals}
	if network {
		small = append(small, &l.Local.refusals, &l.Remote.refusals)
		for _, c := range []*Counter{&l.Local.Connections, &l.Remote.Connections} {
			c.all = min(c.all, max(1, descriptors/8))
			left -= c.all
		}
	}
	for _, c := range small {
		c.all = min(c.all, max(1, descriptors/8))
		left -= c.all
	}
	c := &l.Sockets.Connections
	c.all = min(c.all, max(1, left))
}

// At returns the places on an address.
func (l *Limiter) At(address net.Addr) *Places {
	if address.Network() == "unix" {
		return &l.Sockets
	}
	return &l.Local
}

// MaxConnections returns the maximum number of open connections to sockets.
func (l *Limiter) MaxConnections() int {
	all, _ := l.Sockets.Connections.limits()
	return all
}

// MaxStreams returns the maximum number of streams of a peer on sockets.
func (l *Limiter) MaxStreams() int {
	_, each := l.Sockets.Subscribers.limits()
	return each
}

// of returns the places for the request or the call of the context.
func (l *Limiter) of(ctx context.Context) *Places {
	if conn := From(ctx); conn != nil && conn.places != nil {
		return conn.places
	}
	return &l.Sockets
}

// Subscriber counts a stream until release is called.
func (l *Limiter) Subscriber(ctx context.Context) (release func(), refusal error) {
	return l.of(ctx).Subscribers.Take(PeerFrom(ctx))
}

// List counts a list until release is called.
func (l *Limiter) List(ctx context.Context) (release func(), refusal error) {
	return l.of(ctx).Lists.Take(PeerFrom(ctx))
}

// Listed returns a handler that counts each request as a list until handle returns.
func (l *Limiter) Listed(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		release, refusal := l.List(r.Context())
		if refusal != nil {
			respond.Failure(w, refusal)
			return
		}
		defer release()
		handle(w, r)
	}
}

// Wait counts a lookup that waits until release is called.
func (l *Limiter) Wait(ctx context.Context) (release func(), refusal error) {
	return l.of(ctx).Waits.Take(PeerFrom(ctx))
}

// Call counts an open call until release is called.
func (l *Limiter) Call(ctx context.Context) (release func(), refusal error) {
	return l.of(ctx).Calls.Take(PeerFrom(ctx))
}

// Subscribe counts a request as a subscriber and makes its connection a stream, until release is
// called.
func (l *Limiter) Subscribe(r *http.Request) (release func(), refusal error) {
	ctx := r.Context()
	giveBack, refusal := l.Subscriber(ctx)
	conn := From(ctx)
	if refusal != nil || conn == nil || r.Method == http.MethodHead { // HEAD has no stream
		return giveBack, refusal
	}
	if deadlinesFrom(ctx) != nil { // HTTP/2 has its own way to end a stream, and carries others
		WithoutDeadlines(ctx)
		return func() { EndWithin(ctx, l.ListTimeout); giveBack() }, nil
	}
	stop := conn.stream()
	return func() { stop(); giveBack() }, nil
}
