package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Status is the status of a log.
type Status struct {
	// Instance is the instance under which sets are shown.
	Instance string
	// Err is nil if sets are stored. Otherwise it is the reason, since Since.
	Err   error
	Since time.Time
	// Segments and Bytes are the number and size of the segments.
	Segments int
	Bytes    int64
	// TooLarge are pods that are too large to be stored, by name. The other pods are stored.
	TooLarge []types.NamespacedName
}

// Status returns the current status.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Instance: l.instance, Since: l.since}
	if l.mode == failed {
		s.Err = l.cause
	}
	s.Bytes, s.Segments = l.bytesLocked(), len(l.segments)
	if l.file != nil {
		s.Segments++
	}
	s.TooLarge = slices.SortedFunc(maps.Values(l.tooLarge), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return s
}
