package store

import (
	"slices"
	"time"
)

// The age of a segment is the time that has passed since it was begun. Two readings of the clock don't
// give it: the clock may be set in between, for example when NTP answers for the first time. So the log
// stores the time that has passed since the directory was first used: in each segment, at a clean stop,
// and in a set if the process has noticed that the clock was set.

// jump is how far the clock and the time that has passed may drift apart before the clock counts as set.
const jump = time.Minute

// beginning is the time that has passed when a directory is first used. 0 is unknown.
const beginning time.Duration = 1

// ageClock measures the time that passes.
type ageClock struct {
	opened, clock time.Time
	// before is the time that had passed when the log was opened.
	before time.Duration
}

// elapsed returns the time that has passed.
func (p *ageClock) elapsed() time.Duration { return p.before + time.Since(p.opened) }

// clockWasSet reports whether the clock was set between the opening of the log and the reading.
func (p *ageClock) clockWasSet(reading time.Time) bool {
	return (reading.Round(0).Sub(p.clock) - time.Since(p.opened)).Abs() > jump // Round leaves out what no clock sets
}

// newAgeClock starts the measurement of a process that opens the log. For the time between two processes,
// only the clock is known. It may be wrong, so at most the period counts. Otherwise a wrong clock would
// make the log too old.
func (r *recovery) newAgeClock(period time.Duration) ageClock {
	for i, s := range slices.Backward(r.segments) {
		h := s.header
		switch {
		case h.Passed != 0:
		case i == len(r.segments)-1:
			h.Passed = beginning
		default: // written by a version without it
			next := r.segments[i+1].header
			h.Passed = next.Passed - between(h.Created, next.Created, period)
		}
	}
	p := ageClock{opened: time.Now(), clock: r.now.Round(0), before: beginning}
	if n := len(r.segments); n > 0 {
		end := r.end.known
		if end.passed == 0 {
			end = known{r.segments[n-1].header.Passed, r.segments[n-1].header.Created}
		}
		p.before = end.passed + between(end.clock, r.end.time, period) + between(r.end.time, r.now, period)
	}
	return p
}

// between returns the time between two readings of the clock: not less than 0, and at most the period.
func between(from, to time.Time, period time.Duration) time.Duration {
	return min(max(0, to.Sub(from)), period)
}

// known is the time that had passed at a reading of the clock.
type known struct {
	passed time.Duration
	clock  time.Time
}
