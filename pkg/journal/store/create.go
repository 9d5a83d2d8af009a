package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// create creates a segment with the present state. alive is called before each write. If create fails, or if
// nobody installs the segment, a start ignores it.
func (l *Log) create(alive func()) (*segment, Appender, error) {
	alive()
	number, err := l.number()
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	table, h := l.table, l.headerLocked()
	l.mu.Unlock()
	s := &segment{number: number, name: segmentName(number), header: h, verified: true}
	file, err := l.opts.FS.Create(filepath.Join(l.opts.Dir, s.name))
	if err != nil {
		return nil, nil, err
	}
	err = writeSnapshot(h, table, func(p []byte) error {
		alive()
		n, err := file.Write(p)
		s.size += int64(n)
		return err
	})
	if err != nil {
		l.discard(s, file)
		return nil, nil, fmt.Errorf("writing %s: %w", s.name, err)
	}
	return s, file, nil
}

// headerLocked returns the header of the next segment.
func (l *Log) headerLocked() *header {
	l.ceiling = max(l.ceiling, l.table.Revision()+reserve)
	h := &header{
		Instance: l.instance, Node: l.opts.Node, BootID: l.opts.BootID, Created: l.opts.Now(),
		Latest: l.latest, Passed: l.ageClock.elapsed(), Base: l.table.Revision(), Ceiling: l.ceiling, Note: l.note,
	}
	switch k := len(l.segments); {
	case l.file != nil:
		h.Predecessor, h.PredecessorSize = l.current.number, l.written
	case l.replaced != nil:
		h.Predecessor, h.PredecessorSize = l.replaced.header.Predecessor, l.replaced.header.PredecessorSize
	case k > 0:
		h.Predecessor, h.PredecessorSize = l.segments[k-1].number, l.segments[k-1].size
	}
	return h
}

// number returns the number of the next segment. If the directory or its lock file is
// gone, it creates them.
func (l *Log) number() (uint64, error) {
	names, err := l.opts.FS.List(l.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("listing the state directory: %w", err)
	}
	l.mu.Lock()
	lock := l.lock
	l.mu.Unlock()
	if lock == nil || !slices.Contains(names, lockName) {
		if lock != nil {
			_ = lock.Close() // no other process can find that file
		}
		if err := l.enter(); err != nil {
			return 0, err
		}
	}
	highest := uint64(0)
	for _, name := range names {
		if number, _, ok := segmentNumber(name); ok {
			highest = max(highest, number)
		}
	}
	return highest + 1, nil
}

// createSynced creates a segment that is on the disk.
func (l *Log) createSynced() (*segment, Appender, error) {
	s, file, err := l.create(func() {})
	if err != nil {
		return nil, nil, err
	}
	if err := file.Sync(); err != nil {
		l.discard(s, file)
		return nil, nil, fmt.Errorf("syncing %s: %w", s.name, err)
	}
	if err := l.opts.FS.SyncDir(l.opts.Dir); err != nil {
		l.discard(s, file)
		return nil, nil, fmt.Errorf("syncing the state directory: %w", err)
	}
	return s, file, nil
}

// discard removes a segment that is not used.
func (l *Log) discard(s *segment, file Appender) {
	_ = file.Close()
	_ = l.opts.FS.Remove(filepath.Join(l.opts.Dir, s.name)) // a start ignores it
}

// installLocked changes over to a segment.
func (l *Log) installLocked(s *segment, file Appender) {
	if l.file != nil {
		l.current.size = l.written
		l.segments = append(l.segments, l.current)
		l.before = l.file
	}
	l.file, l.current, l.replaced = file, s, nil
	l.snapshot, l.written, l.synced = s.size, s.size, 0
	if l.mode == failed {
		l.logger.Info("Updates are stored again", "dir", l.opts.Dir, "segment", s.name)
	}
	l.mode, l.cause, l.since, l.works = healthy, nil, l.opts.Now(), false
	if l.opens != nil {
		l.opens.Stop()
	}
	l.changed.Broadcast()
	l.wake()
}

// roll changes over to a new segment, which is not synced yet. If that fails, the present segment is still used.
func (l *Log) roll(generation int, watch *time.Timer) {
	s, file, err := l.create(func() { watch.Reset(stall) })
	watch.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.generation != generation: // it took too long
		if err == nil {
			l.writers.Go(func() { l.discard(s, file) })
		}
		return
	case err == nil:
		l.installLocked(s, file)
	case l.mode == failed:
		l.retryLocked(err)
	default:
		l.full, l.retryAt = isFull(err), time.Now().Add(syncEvery)
		l.logger.Error(err, "Beginning a new segment of the journal failed; the present one grows", "dir", l.opts.Dir)
	}
	l.rolling = false
}

// rollDueLocked reports whether a new segment must be begun: the present one is large or old enough, or a segment
// can be written after a failure. The present one must have been synced, so that at most two segments are not.
func (l *Log) rollDueLocked() bool {
	switch size := l.written - l.snapshot; {
	case l.mode == failed:
		return l.works
	case l.mode != healthy, l.synced == 0, l.closing, time.Now().Before(l.retryAt):
		return false
	default:
		return size >= max(l.opts.SegmentBytes, l.snapshot) ||
			size > 0 && l.ageClock.elapsed()-l.current.header.Passed >= l.opts.MaxAge/8
	}
}

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
