package server

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// counter limits one kind of resource, in total and by peer. If each is 0, a peer has no limit.
type counter struct {
	what      string
	all, each int

	mu    sync.Mutex
	total int
	peers map[peerID]int
	// refused counts the refusals; nil for none.
	refused prometheus.Counter
}

// setLimits takes the limits of another counter. What is in use stays.
func (c *counter) setLimits(other *counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.each = other.all, other.each
}

// limits returns the limits.
func (c *counter) limits() (all, each int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.each
}

// take counts one more for the peer until release is called. If a limit is reached, refusal
// names it and release does nothing.
func (c *counter) take(p peerID) (release func(), refusal error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if refusal != nil && c.refused != nil {
			c.refused.Inc()
		}
	}()
	switch {
	case p.known && c.each > 0 && c.peers[p] >= c.each:
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
