package server

import (
	"cmp"
	"context"
	"time"
)

// Limits prevents one client from taking what other clients need. A peer is a client
// process. All processes of a user that are outside the PID namespace of the daemon are one
// peer. Over TCP, a peer is an IPv4 address or a /64 network of IPv6, and all loopback addresses
// are one peer. The sockets, the loopback addresses and the https addresses have these limits
// separately. On the sockets, users have parts of them: see userPart. A limit of 0 is its default.
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
	// Network is true if there are addresses of the network, besides those of RunMetrics.
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

// refusalTime is the time for which a connection beyond the limit is kept for its answer.
const refusalTime = time.Second

// Limits of the connections that are kept only for their answer. Connections beyond them are
// closed without an answer.
const (
	maxRefusals        = 256
	maxRefusalsPerPeer = 32
	maxScrapeRefusals  = 8
)

// limiter counts what each peer uses.
type limiter struct {
	// sockets, local and remote are the places on the sockets, on loopback addresses and on https
	// addresses.
	sockets, local, remote places
	scrapes                counter
	// tcp counts the connections that are only for metrics.
	tcp         gate
	listTimeout time.Duration
}

// places counts what the clients of one kind of address use.
type places struct {
	gate
	subscribers, lists counter
	// waits counts the lookups that wait.
	waits counter
	// calls counts the calls of gRPC, and over https all requests, until they end.
	calls counter
}

// gate counts connections, and the connections beyond the limit that are kept for their answer.
type gate struct{ connections, refusals counter }

// callsPerSubscriber is how many open calls are allowed for each stream that is allowed: a stream, a
// lookup that waits, and one more.
const callsPerSubscriber = 3

func newPlaces(l Limits, connections, connectionsPerPeer, refusals, refusalsPerPeer int) places {
	all, each := cmp.Or(l.Subscribers, DefaultMaxSubscribers), cmp.Or(l.SubscribersPerPeer, DefaultMaxSubscribersPerPeer)
	return places{
		subscribers: counter{what: "subscribers", all: all, each: each},
		lists:       counter{what: "lists at a time", all: cmp.Or(l.Lists, defaultMaxLists), each: cmp.Or(l.ListsPerPeer, defaultMaxListsPerPeer)},
		waits:       counter{what: "lookups that wait", all: all, each: each},
		calls:       counter{what: "open calls", all: max(minCalls, callsPerSubscriber*all), each: max(minCalls, callsPerSubscriber*each)},
		gate: gate{
			connections: counter{what: "connections", all: cmp.Or(connections, 2*all), each: cmp.Or(connectionsPerPeer, 2*each)},
			refusals:    counter{what: "refusals", all: refusals, each: refusalsPerPeer},
		},
	}
}

// minCalls is the smallest limit of open calls.
const minCalls = 64

func newLimiter(l Limits) *limiter {
	limits := &limiter{
		sockets: newPlaces(l, l.Connections, l.ConnectionsPerPeer, maxRefusals, maxRefusalsPerPeer),
		local:   newPlaces(l, l.Connections, l.ConnectionsPerPeer, maxRefusals, maxRefusalsPerPeer),
		remote: newPlaces(l, cmp.Or(l.RemoteConnections, defaultMaxRemoteConnections),
			cmp.Or(l.RemoteConnectionsPerPeer, defaultMaxRemoteConnectionsPerPeer), maxScrapeRefusals, 1),
		scrapes: counter{what: "scrapes at a time", all: cmp.Or(l.Scrapes, defaultMaxScrapes)},
		tcp: gate{
			connections: counter{what: "connections", all: cmp.Or(l.ScrapeConnections, defaultMaxScrapeConnections)},
			refusals:    counter{what: "refusals", all: maxScrapeRefusals},
		},
		listTimeout: cmp.Or(l.ListTimeout, defaultListTimeout),
	}
	if n := l.Descriptors; n > 0 {
		limits.share(n, l.Network)
	}
	return limits
}

// SetLimits changes the limits while the server runs. Connections and streams beyond a new limit
// stay until they end. The number of streams in one gRPC connection and ListTimeout do not
// change.
func (s *Server) SetLimits(l Limits) {
	next := newLimiter(l).counters()
	for i, c := range s.limits.counters() {
		c.setLimits(next[i])
	}
}

// count counts the refusals of each limit.
func (l *limiter) count(m *metrics) {
	l.scrapes.refused = m.limited.WithLabelValues("scrapes")
	l.tcp.connections.refused = m.limited.WithLabelValues("connections")
	for _, p := range l.places() {
		p.subscribers.refused = m.limited.WithLabelValues("subscribers")
		p.lists.refused = m.limited.WithLabelValues("lists")
		p.waits.refused = m.limited.WithLabelValues("waits")
		p.calls.refused = m.limited.WithLabelValues("calls")
		p.connections.refused = m.limited.WithLabelValues("connections")
	}
}

func (l *limiter) places() []*places { return []*places{&l.sockets, &l.local, &l.remote} }

func (l *limiter) counters() []*counter {
	all := []*counter{&l.scrapes, &l.tcp.connections, &l.tcp.refusals}
	for _, p := range l.places() {
		all = append(all, &p.subscribers, &p.lists, &p.waits, &p.calls, &p.connections, &p.refusals)
	}
	return all
}

// share divides the file descriptors among the kinds of connections. Each kind gets at least
// one.
func (l *limiter) share(descriptors int, network bool) {
	left := descriptors
	small := []*counter{&l.tcp.refusals, &l.tcp.connections, &l.sockets.refusals}
	if network {
		small = append(small, &l.local.refusals, &l.remote.refusals)
		for _, c := range []*counter{&l.local.connections, &l.remote.connections} {
			c.all = min(c.all, max(1, descriptors/8))
			left -= c.all
		}
	}
	for _, c := range small {
		c.all = min(c.all, max(1, descriptors/8))
		left -= c.all
	}
	c := &l.sockets.connections
	c.all = min(c.all, max(1, left))
}

// places returns the places for the request or the call of the context, and its peer.
func (s *Server) places(ctx context.Context) (*places, peerID) {
	info := grpcInfo(ctx)
	if info.conn == nil || info.conn.places == nil {
		return &s.limits.sockets, info.id
	}
	return info.conn.places, info.id
}

// subscriber counts a stream until release is called.
func (s *Server) subscriber(ctx context.Context) (release func(), refusal error) {
	places, peer := s.places(ctx)
	return places.subscribers.take(peer)
}

// list counts a list until release is called.
func (s *Server) list(ctx context.Context) (release func(), refusal error) {
	places, peer := s.places(ctx)
	return places.lists.take(peer)
}

// call counts an open call until release is called.
func (s *Server) call(ctx context.Context) (release func(), refusal error) {
	places, peer := s.places(ctx)
	return places.calls.take(peer)
}
