package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
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
	// Connections and ConnectionsPerPeer bound the connections that are open. They are
	// twice the bounds of subscribers by default.
	Connections, ConnectionsPerPeer int
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
	defaultListTimeout           = 30 * time.Second
)

// refusalTime is how long a connection that is one too many is kept for its answer.
const refusalTime = time.Second

// maxRefusals and maxRefusalsPerPeer bound those; what is beyond them is closed without
// a word.
const (
	maxRefusals        = 256
	maxRefusalsPerPeer = 32
)

// limiter counts what each peer has under way.
type limiter struct {
	subscribers, lists, scrapes, connections counter
	// refusals are the connections that are kept for their answer.
	refusals    counter
	listTimeout time.Duration
}

func newLimiter(l Limits) *limiter {
	all, each := cmp.Or(l.Subscribers, DefaultMaxSubscribers), cmp.Or(l.SubscribersPerPeer, DefaultMaxSubscribersPerPeer)
	return &limiter{
		subscribers: counter{what: "subscribers", all: all, each: each},
		lists:       counter{what: "lists at a time", all: cmp.Or(l.Lists, defaultMaxLists), each: cmp.Or(l.ListsPerPeer, defaultMaxListsPerPeer)},
		scrapes:     counter{what: "scrapes at a time", all: cmp.Or(l.Scrapes, defaultMaxScrapes)},
		connections: counter{what: "connections", all: cmp.Or(l.Connections, 2*all), each: cmp.Or(l.ConnectionsPerPeer, 2*each)},
		refusals:    counter{what: "refusals", all: maxRefusals, each: maxRefusalsPerPeer},
		listTimeout: cmp.Or(l.ListTimeout, defaultListTimeout),
	}
}

func (l *limiter) subscriber(p peerID) (release func(), refusal error) { return l.subscribers.take(p) }
func (l *limiter) list(p peerID) (release func(), refusal error)       { return l.lists.take(p) }
func (l *limiter) connection(p peerID) (release func(), refusal error) { return l.connections.take(p) }

// counter counts one kind of thing by peer.
type counter struct {
	what      string
	all, each int

	mu    sync.Mutex
	total int
	peers map[peerID]int
}

// take counts one more for the peer until release is called. A refusal says which
// limit was reached; release does nothing then.
func (c *counter) take(p peerID) (release func(), refusal error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.known && c.peers[p] >= c.each:
		return func() {}, fmt.Errorf("too many %s: %v has %d, and no more are allowed to one", c.what, p, c.each)
	case c.total >= c.all:
		return func() {}, fmt.Errorf("too many %s: there are %d, and no more are allowed in all", c.what, c.all)
	}
	if c.peers == nil {
		c.peers = make(map[peerID]int)
	}
	c.total++
	c.peers[p]++
	return func() { c.release(p) }, nil
}

func (c *counter) release(p peerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.peers[p]--; c.peers[p] == 0 {
		delete(c.peers, p)
	}
}

// refuse tells a connection of HTTP/1.1 that it is one too many.
func refuse(conn net.Conn, refusal error) {
	_ = conn.SetWriteDeadline(time.Now().Add(refusalTime)) // as below
	body, _ := json.Marshal(respond.TooMany(refusal))      // of strings
	// It is closed next, whether or not this gets through.
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests), len(body), body)
}

// newRefuser returns a server that tells the calls of gRPC connections that these are
// too many, and closes them.
func newRefuser() *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.ConnectionTimeout(refusalTime),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: refusalTime, MaxConnectionAgeGrace: refusalTime}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return status.Error(codes.ResourceExhausted, grpcInfo(stream.Context()).refusal().Error())
		}),
	)
}
