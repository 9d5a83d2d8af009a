package conn

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

// Rates limits how often each peer may do something.
type Rates struct {
	perSecond rate.Limit
	burst     int
	// adding is held while a limiter is added: two of one peer would each count a part.
	adding sync.Mutex
	// limiters has a *rate.Limiter for each peer.
	limiters *cache.LRUExpireCache
}

func NewRates(perSecond rate.Limit, burst int) *Rates {
	return &Rates{perSecond: perSecond, burst: burst, limiters: cache.NewLRUExpireCache(maxRated)}
}

// Take counts one more for the peer, and reports whether it was allowed.
func (r *Rates) Take(peer Peer) bool {
	r.adding.Lock()
	defer r.adding.Unlock()
	limiter := r.of(peer)
	if limiter == nil {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
	}
	r.limiters.Add(peer, limiter, ratedFor)
	return limiter.Allow()
}

// Wait returns how long the peer must wait until one more is allowed.
func (r *Rates) Wait(peer Peer) time.Duration {
	limiter := r.of(peer)
	if limiter == nil {
		return 0
	}
	return time.Duration(max(0, 1-limiter.Tokens()) / float64(r.perSecond) * float64(time.Second))
}

// of returns the limiter of a peer; nil if it has none.
func (r *Rates) of(peer Peer) *rate.Limiter {
	known, _ := r.limiters.Get(peer)
	limiter, _ := known.(*rate.Limiter)
	return limiter
}
