package journal

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// tick is how often Run looks.
	tick = 2 * time.Second
	// oversized is how long a set that alone is larger than the ring may be stays for
	// those who keep up.
	oversized = 10 * time.Second
	// reserved is how many revisions are reserved at a time.
	reserved = 1 << 20
)

// Run does what is due from time to time, until the context is done, and returns its
// cause: subscribers that were told nothing are told how far the stream is, a set that
// alone is larger than the ring may be leaves it, and revisions are reserved.
func (j *Journal) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	ceiling := int64(0)
	for {
		ceiling = j.reserveFrom(ctx, ceiling)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			j.Progress()
			j.trim(time.Now())
		}
	}
}

// reserveFrom reserves revisions where few are left below the ceiling, and returns the
// present ceiling.
func (j *Journal) reserveFrom(ctx context.Context, ceiling int64) int64 {
	head := j.Revision()
	if j.reserve == nil || ceiling-head > reserved/2 {
		return ceiling
	}
	if err := j.reserve(head + reserved); err != nil {
		if ceiling == 0 {
			klog.FromContext(ctx).Error(err, "Reserving revisions failed; if the clock is set back before the next start, a client that resumes without an instance may miss updates")
		}
		return max(ceiling, 1) // tried again
	}
	return head + reserved
}

// Progress has subscribers that were given nothing of late told how far the stream is,
// so that what they resume from does not grow old.
func (j *Journal) Progress() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress < j.head {
		j.progress = j.head
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// trim lets go of the newest set where it alone is too large and has been there for
// long enough.
func (j *Journal) trim(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.ring.len(); n > 0 && j.bytes > j.maxBytes && now.Sub(j.ring.at(n-1).Time) >= oversized {
		for j.ring.len() > 0 {
			j.popLocked()
		}
	}
}
