package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// maxRated is how many peers have a rate of their own. The one that was not seen for the
	// longest time is forgotten first, so that many addresses fill no memory.
	maxRated = 1024
	// ratedFor is the time after which a peer is forgotten.
	ratedFor = 10 * time.Minute
)

// rates limits how often each peer may do something.
type rates struct {
	perSecond rate.Limit
	burst     int
	// adding is held while a limiter is added: two of one peer would each count a part.
	adding sync.Mutex
	// limiters has a *rate.Limiter for each peer.
	limiters *cache.LRUExpireCache
}

func newRates(perSecond rate.Limit, burst int) *rates {
	return &rates{perSecond: perSecond, burst: burst, limiters: cache.NewLRUExpireCache(maxRated)}
}

// take counts one more for the peer, and reports whether it was allowed.
func (r *rates) take(peer peerID) bool {
	r.adding.Lock()
	defer r.adding.Unlock()
	limiter := r.of(peer)
	if limiter == nil {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
	}
	r.limiters.Add(peer, limiter, ratedFor)
	return limiter.Allow()
}

// wait returns how long the peer must wait until one more is allowed.
func (r *rates) wait(peer peerID) time.Duration {
	limiter := r.of(peer)
	if limiter == nil {
		return 0
	}
	return time.Duration(max(0, 1-limiter.Tokens()) / float64(r.perSecond) * float64(time.Second))
}

// of returns the limiter of a peer; nil if it has none.
func (r *rates) of(peer peerID) *rate.Limiter {
	known, _ := r.limiters.Get(peer)
	limiter, _ := known.(*rate.Limiter)
	return limiter
}
