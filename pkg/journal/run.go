package journal

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// tick is the period of Run.
	tick = 2 * time.Second
	// oversized is how long a set that alone exceeds the limit of the ring stays for
	// subscribers that keep up.
	oversized = 10 * time.Second
	// reserved is the number of revisions that are reserved at a time.
	reserved = 1 << 20
)

// Run does periodic work until the context is done, and returns its cause. It sends
// progress to subscribers that got no update, removes a set that alone exceeds the limit
// of the ring, and reserves revisions.
func (j *Journal) Run(ctx context.Context) error {
	j.begin()
	ceiling := int64(0)
	for {
		ceiling = j.reserveFrom(ctx, ceiling)
		if err := await.For(ctx, tick); err != nil {
			return err
		}
		j.Progress()
		j.trim(time.Now())
	}
}

// begin advances the revision after a restart, so that a subscriber to objects can resume. A set
// that is being stored advances it too.
func (j *Journal) begin() {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	if j.intake.head == j.restarted {
		j.commit(j.intake.advance(time.Now()))
	}
}

// reserveFrom reserves revisions if few are left below the ceiling, and returns the
// ceiling.
func (j *Journal) reserveFrom(ctx context.Context, ceiling int64) int64 {
	if j.reserve == nil {
		return ceiling
	}
	j.intake.mu.Lock()
	head := j.intake.head // a set that is being stored is shown next
	j.intake.mu.Unlock()
	if ceiling-head > reserved/2 {
		return ceiling
	}
	if err := j.reserve(head + reserved); err != nil {
		if ceiling == 0 {
			klog.FromContext(ctx).Error(err, "Reserving revisions failed; if the clock is set back before the next start, a client that resumes without an instance may miss updates")
		}
		return max(ceiling, 1) // retried at the next tick
	}
	return head + reserved
}

// Progress wakes subscribers that got no update, so that they send a bookmark. Their
// revision to resume from stays recent.
func (j *Journal) Progress() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.progress < j.table.revision {
		j.progress = j.table.revision
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// SetLimits changes Options.MaxUpdates and Options.MaxBytes. Sets beyond the new limits leave
// the ring at once.
func (j *Journal) SetLimits(maxUpdates int, maxBytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maxUpdates, j.maxBytes = maxUpdates, maxBytes
	j.shrinkLocked()
}

// trim removes the newest set if it alone is too large and is old enough.
func (j *Journal) trim(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.ring.len(); n > 0 && j.bytes > j.maxBytes && now.Sub(j.ring.at(n-1).Time) >= oversized {
		j.clearLocked()
	}
}
