package server

import (
	"cmp"
	"time"
)

// Limits prevents one client from taking what other clients need. A peer is a client
// process. All processes of a user that are outside the PID namespace of the daemon are one
// peer. Over TCP, a peer is an IPv4 address or a /64 network of IPv6. A limit of 0 is its
// default.
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
	subscribers, lists, scrapes counter
	// waits counts the lookups that wait.
	waits counter
	// sockets counts the connections to sockets, local those to loopback addresses, remote those
	// to https addresses, and tcp those that are only for metrics.
	sockets, local, remote, tcp gate
	listTimeout                 time.Duration
}

// gate counts connections, and the connections beyond the limit that are kept for their answer.
type gate struct{ connections, refusals counter }

func newLimiter(l Limits) *limiter {
	all, each := cmp.Or(l.Subscribers, DefaultMaxSubscribers), cmp.Or(l.SubscribersPerPeer, DefaultMaxSubscribersPerPeer)
	limits := &limiter{
		subscribers: counter{what: "subscribers", all: all, each: each},
		lists:       counter{what: "lists at a time", all: cmp.Or(l.Lists, defaultMaxLists), each: cmp.Or(l.ListsPerPeer, defaultMaxListsPerPeer)},
		waits:       counter{what: "lookups that wait", all: all, each: each},
		scrapes:     counter{what: "scrapes at a time", all: cmp.Or(l.Scrapes, defaultMaxScrapes)},
		sockets: gate{
			connections: counter{what: "connections", all: cmp.Or(l.Connections, 2*all), each: cmp.Or(l.ConnectionsPerPeer, 2*each)},
			refusals:    counter{what: "refusals", all: maxRefusals, each: maxRefusalsPerPeer},
		},
		local: gate{
			connections: counter{what: "connections", all: cmp.Or(l.Connections, 2*all), each: cmp.Or(l.ConnectionsPerPeer, 2*each)},
			refusals:    counter{what: "refusals", all: maxRefusals, each: maxRefusalsPerPeer},
		},
		remote: gate{
			connections: counter{what: "connections", all: cmp.Or(l.RemoteConnections, defaultMaxRemoteConnections), each: cmp.Or(l.RemoteConnectionsPerPeer, defaultMaxRemoteConnectionsPerPeer)},
			refusals:    counter{what: "refusals", all: maxScrapeRefusals, each: 1},
		},
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
	for limit, counters := range map[string][]*counter{
		"subscribers": {&l.subscribers},
		"lists":       {&l.lists},
		"scrapes":     {&l.scrapes},
		"waits":       {&l.waits},
		"connections": {&l.sockets.connections, &l.local.connections, &l.remote.connections, &l.tcp.connections},
	} {
		for _, c := range counters {
			c.refused = m.limited.WithLabelValues(limit)
		}
	}
}

func (l *limiter) counters() []*counter {
	all := []*counter{&l.subscribers, &l.lists, &l.scrapes, &l.waits}
	for _, g := range []*gate{&l.sockets, &l.local, &l.remote, &l.tcp} {
		all = append(all, &g.connections, &g.refusals)
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

func (l *limiter) subscriber(p peerID) (release func(), refusal error) { return l.subscribers.take(p) }
func (l *limiter) list(p peerID) (release func(), refusal error)       { return l.lists.take(p) }
