package backend

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Limits of Lines.
const (
	linesFor   = time.Hour
	maxKeys    = 1024
	lineBurst  = 20
	linePeriod = 6 * time.Second
)

// Lines limits what is logged of refusals: each key is logged once an hour, and all together have a rate.
type Lines struct {
	logged  *cache.LRUExpireCache
	limiter *rate.Limiter
}

// NewLines returns lines of which none is logged.
func NewLines() *Lines {
	return &Lines{cache.NewLRUExpireCache(maxKeys), rate.NewLimiter(rate.Every(linePeriod), lineBurst)}
}

// First reports whether to log a line with the key.
func (l *Lines) First(key string) bool {
	if _, ok := l.logged.Get(key); ok || !l.limiter.Allow() {
		return false
	}
	l.logged.Add(key, nil, linesFor)
	return true
}
