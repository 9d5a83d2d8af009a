package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// keep does the work that no set waits for: it prepares segments, syncs, deletes old
// segments, and verifies the segments that the start did not read.
func (l *Log) keep(ctx context.Context) {
	l.begin()
	l.prune() // a process that is always killed soon must not fill the disk
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			l.roll()
		case <-ticker.C:
			l.heal()
			l.check()
			l.sync()
			l.roll()
			l.prune()
			l.verify()
		}
	}
}

// begin creates the first segment. Open has started its preparation, so that no set is
// only in the snapshot.
func (l *Log) begin() {
	l.mu.Lock()
	n := l.next
	l.mu.Unlock()
	if n == nil { // the log has failed already
		return
	}
	err := l.complete(n)
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

// heal prepares a segment in the failed state.
func (l *Log) heal() {
	l.mu.Lock()
	due := l.mode == failed && !time.Now().Before(l.retryAt)
	l.mu.Unlock()
	if !due {
		return
	}
	l.forgetLost()
	l.makeRoom()
	err := l.prepare()
	if errors.Is(err, errAbandoned) { // the instance has changed since
		err = l.prepare()
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause, l.full = err, errors.Is(err, syscall.ENOSPC)
	l.retry = min(2*l.retry, maxRetry)
	l.retryAt = time.Now().Add(l.retry)
}

// roll prepares the next segment if the current one is large or old enough.
func (l *Log) roll() {
	l.mu.Lock()
	due := l.rollDueLocked() && !time.Now().Before(l.retryAt)
	l.mu.Unlock()
	if !due {
		return
	}
	l.makeRoom()
	err := l.prepare()
	if err == nil || errors.Is(err, errAbandoned) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = errors.Is(err, syscall.ENOSPC)
	if errors.Is(err, errBefore) {
		l.failLocked(err)
		return
	}
	// The current segment can still be written.
	l.retryAt = time.Now().Add(syncEvery)
	l.logger.Error(err, "Beginning a new segment of the journal failed; the present one grows", "dir", l.opts.Dir)
}

func (l *Log) rollDueLocked() bool {
	if l.mode != healthy || l.next != nil {
		return false
	}
	size := l.written - l.snapshot
	return size >= max(l.opts.SegmentBytes, l.snapshot) ||
		size > 0 && l.passing.passed()-l.current.header.Passed >= l.opts.MaxAge/8
}

// check checks that the segment is still in the directory, with what was written. Otherwise
// its data would be lost: somebody may have replaced the directory by a copy.
func (l *Log) check() {
	l.mu.Lock()
	file, current, written := l.file, l.current, l.written
	l.mu.Unlock()
	if file == nil {
		return
	}
	err := l.find(current.name, written)
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == file {
		l.failLocked(fmt.Errorf("looking for the present segment: %w", err))
	}
}

// find returns an error if a segment is not in the directory, or has fewer bytes.
func (l *Log) find(name string, size int64) error {
	file, is, err := l.opts.FS.Open(filepath.Join(l.opts.Dir, name))
	if err != nil {
		return err
	}
	if is < size {
		err = fmt.Errorf("%s has %d bytes, and had %d: was the state directory replaced?", name, is, size)
	}
	return errors.Join(err, file.Close())
}

// forgetLost drops the segments that are no longer in the directory. Otherwise the file of
// a new one, which may have the same name, would be deleted in place of an old one.
func (l *Log) forgetLost() {
	l.mu.Lock()
	segments := slices.Clone(l.segments)
	l.mu.Unlock()
	lost := slices.DeleteFunc(segments, func(s *segment) bool { return l.find(s.name, s.size) == nil })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = slices.DeleteFunc(l.segments, func(s *segment) bool { return slices.Contains(lost, s) })
}

// sync makes the written data durable.
func (l *Log) sync() {
	l.mu.Lock()
	file, current, written := l.file, l.current, l.written
	dirty := file != nil && written > l.synced
	l.mu.Unlock()
	if !dirty {
		return
	}
	err := file.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != file { // the segment failed in the meantime
		return
	}
	if err != nil {
		l.failLocked(fmt.Errorf("syncing %s: %w", current.name, err))
		return
	}
	l.synced = max(l.synced, written)
}

// bytesLocked returns the size of all segments.
func (l *Log) bytesLocked() (bytes int64) {
	for _, s := range l.segments {
		bytes += s.size
	}
	if l.file != nil {
		bytes += l.written
	}
	return bytes
}

// makeRoom deletes the oldest segment if the file system was full at the last attempt. If the segments
// have less than half of MaxBytes, something else fills the file system, and would fill it again.
func (l *Log) makeRoom() {
	l.mu.Lock()
	var oldest []*segment
	if l.full && len(l.segments) > 0 && l.bytesLocked() > l.opts.MaxBytes/2 {
		oldest, l.segments = l.segments[:1:1], l.segments[1:]
	}
	l.full = false
	l.mu.Unlock()
	l.remove(oldest)
}

// prune deletes the oldest segments if there are too many bytes, or if all their sets are
// too old.
func (l *Log) prune() {
	l.mu.Lock()
	passed, bytes := l.passing.passed(), l.bytesLocked()
	n := 0
	for ; n < len(l.segments); n++ {
		after := l.current
		if n+1 < len(l.segments) {
			after = l.segments[n+1]
		}
		if after == nil || bytes <= l.opts.MaxBytes && passed-after.header.Passed <= l.opts.MaxAge {
			break
		}
		bytes -= l.segments[n].size
	}
	pruned := l.segments[:n:n]
	l.segments = l.segments[n:]
	l.unread = slices.DeleteFunc(l.unread, func(s *segment) bool {
		old := n > 0 && s.number < pruned[n-1].number
		if old {
			pruned = append(pruned, s)
		}
		return old
	})
	l.mu.Unlock()
	l.remove(pruned)
}
