package server

import (
	"cmp"
	"time"
)

// Limits keep one client from taking what the others need. A peer is a process at the
// other end of the socket; all of a user's that are outside of the daemon's PID namespace
// are one. A limit that is 0 stands for its default.
type Limits struct {
	// Subscribers and SubscribersPerPeer bound the streams that are open.
	Subscribers, SubscribersPerPeer int
	// Lists and ListsPerPeer bound the lists that are being answered.
	Lists, ListsPerPeer int
	// Scrapes bounds the answers of /metrics that are under way over TCP.
	Scrapes int
	// Connections and ConnectionsPerPeer bound the connections to sockets that are open.
	// They are twice the bounds of subscribers by default.
	Connections, ConnectionsPerPeer int
	// ScrapeConnections bounds the connections over TCP that are open.
	ScrapeConnections int
	// Descriptors bounds what all connections together may take of the process's file
	// descriptors. 0 is no bound.
	Descriptors int
	// ListTimeout is how long a client may take to read a list, or any other answer that
	// is no stream.
	ListTimeout time.Duration
}

// Defaults of Limits. A node has some dozen agents.
const (
	DefaultMaxSubscribers        = 1024
	DefaultMaxSubscribersPerPeer = 256
	defaultMaxLists              = 64
	defaultMaxListsPerPeer       = 16
	defaultMaxScrapes            = 16
	defaultMaxScrapeConnections  = 64
	defaultListTimeout           = 30 * time.Second
)

// refusalTime is how long a connection that is one too many is kept for its answer.
const refusalTime = time.Second

// These bound the connections that are kept for their answer, and those over TCP; what is
// beyond them is closed without a word.
const (
	maxRefusals        = 256
	maxRefusalsPerPeer = 32
	maxScrapeRefusals  = 8
)

// limiter counts what each peer has under way.
type limiter struct {
	subscribers, lists, scrapes counter
	// sockets is for the connections to sockets, tcp for those over TCP.
	sockets, tcp gate
	listTimeout  time.Duration
}

// gate counts connections, and those that are too many and kept for their answer.
type gate struct{ connections, refusals counter }

func newLimiter(l Limits) *limiter {
	all, each := cmp.Or(l.Subscribers, DefaultMaxSubscribers), cmp.Or(l.SubscribersPerPeer, DefaultMaxSubscribersPerPeer)
	limits := &limiter{
		subscribers: counter{what: "subscribers", all: all, each: each},
		lists:       counter{what: "lists at a time", all: cmp.Or(l.Lists, defaultMaxLists), each: cmp.Or(l.ListsPerPeer, defaultMaxListsPerPeer)},
		scrapes:     counter{what: "scrapes at a time", all: cmp.Or(l.Scrapes, defaultMaxScrapes)},
		sockets: gate{
			connections: counter{what: "connections", all: cmp.Or(l.Connections, 2*all), each: cmp.Or(l.ConnectionsPerPeer, 2*each)},
			refusals:    counter{what: "refusals", all: maxRefusals, each: maxRefusalsPerPeer},
		},
		tcp: gate{
			connections: counter{what: "connections", all: cmp.Or(l.ScrapeConnections, defaultMaxScrapeConnections)},
			refusals:    counter{what: "refusals", all: maxScrapeRefusals},
		},
		listTimeout: cmp.Or(l.ListTimeout, defaultListTimeout),
	}
	if n := l.Descriptors; n > 0 {
		limits.share(n)
	}
	return limits
}

// share divides file descriptors among the connections where there are too few of them.
// Each kind keeps one.
func (l *limiter) share(descriptors int) {
	left := descriptors
	for _, c := range []*counter{&l.tcp.refusals, &l.tcp.connections, &l.sockets.refusals} {
		c.all = min(c.all, max(1, descriptors/8))
		left -= c.all
	}
	c := &l.sockets.connections
	c.all = min(c.all, max(1, left))
}

func (l *limiter) subscriber(p peerID) (release func(), refusal error) { return l.subscribers.take(p) }
func (l *limiter) list(p peerID) (release func(), refusal error)       { return l.lists.take(p) }
