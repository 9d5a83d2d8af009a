package journal

import (
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// linger is how long an operation that is recorded on demand is still recorded after its
// last subscriber has left. The subscriber may return and resume.
const linger = 5 * time.Minute

// demand is the demand for an operation that is recorded only while a subscriber requests
// it.
type demand struct {
	subscribers int
	// until is the end of the recording, after the last subscriber has left.
	until time.Time
	// since is the revision since which the operation is recorded without a break; 0 if it always was. It is one after
	// the newest at which the operation was not recorded.
	since int64
}

// onDemand reports whether the operation is recorded only while a subscriber requests it.
func onDemand(op config.PodOperation) bool {
	return op == config.SYNC || op == config.PLEG
}

func (j *Journal) demandLocked(op config.PodOperation) *demand {
	d := j.demand[op]
	if d == nil {
		d = new(demand)
		j.demand[op] = d
	}
	return d
}

// wanted reports whether the operation is recorded now, at a revision. If not, it is recorded after it at the earliest.
func (j *Journal) wanted(op config.PodOperation, revision int64, now time.Time) bool {
	if !onDemand(op) {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.demandLocked(op)
	if d.subscribers > 0 || now.Before(d.until) {
		return true
	}
	d.since = revision + 1
	return false
}

// ask counts a subscriber that requests the operations. If one was not recorded at the
// newest revision, it advances the revision, so that the subscriber can resume from there.
func (j *Journal) ask(ops Operations) {
	j.intake.mu.Lock()
	missing := j.askFor(ops)
	if missing {
		j.commit(j.intake.advance(time.Now()))
	}
	head := j.intake.head
	j.intake.mu.Unlock()
	if missing {
		j.await(head)
	}
}

// Advance advances the revision without an update, and returns the revision before. Nobody has read a later
// one. So a subscriber can tell what it got before from what it gets now. Advance does not wait for the store:
// until subscribers can read the new revision, what they get can have the revision before or an earlier one.
func (j *Journal) Advance() (before int64) {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	before = j.intake.head
	j.commit(j.intake.advance(time.Now()))
	return before
}

// askFor counts the subscriber, and reports whether it can't resume from the newest revision that subscribers can
// read. After a restart, that is so for operations that are always recorded, too.
func (j *Journal) askFor(ops Operations) (missing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for op, wanted := range ops {
		if !wanted {
			continue
		}
		if onDemand(op) {
			j.demandLocked(op).subscribers++
		}
		if d := j.demand[op]; d != nil {
			missing = missing || j.table.revision < d.since
		}
	}
	return missing
}

// patience is more than a store takes to show a set, also if it fails.
const patience = 2 * time.Second

// await waits until subscribers can read the revision. A log that ends shows nothing any
// more, so it does not wait long.
func (j *Journal) await(revision int64) {
	var timeout <-chan time.Time
	for {
		j.mu.RLock()
		head, changed := j.table.revision, j.changed
		j.mu.RUnlock()
		if head >= revision {
			return
		}
		if timeout == nil {
			timeout = time.After(patience)
		}
		select {
		case <-changed:
		case <-timeout:
			return
		}
	}
}

// leaveLocked stops counting the subscriber.
func (j *Journal) leaveLocked(ops Operations, now time.Time) {
	for op, wanted := range ops {
		if wanted && onDemand(op) {
			d := j.demandLocked(op)
			d.subscribers--
			d.until = now.Add(linger)
		}
	}
}

// Operations is a set of operations.
type Operations map[config.PodOperation]bool
