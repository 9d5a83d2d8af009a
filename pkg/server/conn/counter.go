package conn

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/podconfigd/podconfigd/internal/apistatus"
)

// Counter limits one kind of resource, in total and by peer. If each is 0, a peer has no limit.
type Counter struct {
	what      string
	all, each int

	mu    sync.Mutex
	total int
	peers map[Peer]int
	// users has the number of each user on the sockets. trusted is the sum of the trusted users, common
	// that of all others.
	users           map[uint32]int
	common, trusted int
	// refused counts the refusals; nil for none.
	refused prometheus.Counter
}

// NewCounter returns a counter with its limits. what names the resource in errors.
func NewCounter(what string, all, each int) *Counter {
	return &Counter{what: what, all: all, each: each}
}

// setLimits copies the limits of another counter. What is in use stays.
func (c *Counter) setLimits(other *Counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.each = other.all, other.each
}

// limits returns the limits.
func (c *Counter) limits() (all, each int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.each
}

// On the sockets, a quarter of a total, rounded down, is reserved for root and the user of the daemon. An
// eighth, rounded down, is reserved for all other users. A user gets at most half, rounded up, of what the
// others leave of the users' part. So two users can't take what a third needs.
func commonPart(all int) int  { return all - all/4 }
func trustedPart(all int) int { return all - all/8 }

// Take counts one more for the peer until release is called. If a limit is reached, refusal
// names it and release does nothing.
func (c *Counter) Take(p Peer) (release func(), refusal error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refusal := c.full(p); refusal != nil {
		if c.refused != nil {
			c.refused.Inc()
		}
		return func() {}, refusal
	}
	c.add(p, 1)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(p, -1)
	}, nil
}

// InUse returns how many are taken.
func (c *Counter) InUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// full returns the limit that the peer has reached; nil for none.
func (c *Counter) full(p Peer) error {
	switch {
	case p.known && c.each > 0 && c.peers[p] >= c.each:
		return tooMany("too many %s: %v has %d, and no more are allowed to one", c.what, p, c.each)
	case c.total >= c.all:
		return tooMany("too many %s: there are %d, and no more are allowed in all", c.what, c.all)
	case !p.process():
		return nil
	case p.trusted():
		if most := trustedPart(c.all); c.trusted >= most {
			return tooMany("too many %s: root and the user of podconfigd have %d, and the rest is for other users", c.what, most)
		}
		return nil
	}
	most, has := commonPart(c.all), c.users[p.uid]
	if c.common >= most {
		return tooMany("too many %s: the users have %d, and the rest is for root and the user of podconfigd", c.what, most)
	}
	if left := most - (c.common - has); has >= left-left/2 {
		return tooMany("too many %s: user %d has %d, and a user gets at most half of what other users leave", c.what, p.uid, has)
	}
	return nil
}

// tooMany is the error of a request beyond a limit: it has the status of one that can be repeated in a second.
func tooMany(format string, args ...any) error {
	status := apistatus.Status(http.StatusTooManyRequests, fmt.Sprintf(format, args...))
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return &apierrors.StatusError{ErrStatus: *status}
}

// add counts n more for the peer.
func (c *Counter) add(p Peer, n int) {
	c.total += n
	count(&c.peers, p, n)
	switch {
	case !p.process():
	case p.trusted():
		c.trusted += n
	default:
		c.common += n
		count(&c.users, p.uid, n)
	}
}

// count adds n to a number of a map, which has no zeros.
func count[K comparable](numbers *map[K]int, key K, n int) {
	if *numbers == nil {
		*numbers = make(map[K]int)
	}
	if (*numbers)[key] += n; (*numbers)[key] == 0 {
		delete(*numbers, key)
	}
}

const (
	// maxRated is the maximum number of peers whose rate is known. The peer that was not seen for the
	// longest time is forgotten first. So many addresses do not fill the memory.
	maxRated = 1024
	// ratedFor is the time after which a peer is forgotten.
	ratedFor = 10 * time.Minute
)

// Rates limits how often each peer may do something.
type Rates struct {
	perSecond rate.Limit
	burst     int
	// adding is held while a limiter is added: two limiters of one peer would each count only a part.
	adding sync.Mutex
	// limiters has a *rate.Limiter for each peer.
	limiters *cache.LRUExpireCache
}

// NewRates returns rates: each peer has burst at once, and perSecond after that.
func NewRates(perSecond rate.Limit, burst int) *Rates {
	return &Rates{perSecond: perSecond, burst: burst, limiters: cache.NewLRUExpireCache(maxRated)}
}

// Take counts one more for the peer, and reports whether it was allowed.
func (r *Rates) Take(peer Peer) bool {
	r.adding.Lock()
	defer r.adding.Unlock()
	limiter := r.limiterOf(peer)
	if limiter == nil {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
	}
	r.limiters.Add(peer, limiter, ratedFor)
	return limiter.Allow()
}

// Wait returns how long the peer must wait until one more is allowed.
func (r *Rates) Wait(peer Peer) time.Duration {
	limiter := r.limiterOf(peer)
	if limiter == nil {
		return 0
	}
	return time.Duration(max(0, 1-limiter.Tokens()) / float64(r.perSecond) * float64(time.Second))
}

// limiterOf returns the limiter of a peer; nil if it has none.
func (r *Rates) limiterOf(peer Peer) *rate.Limiter {
	known, _ := r.limiters.Get(peer)
	limiter, _ := known.(*rate.Limiter)
	return limiter
}
