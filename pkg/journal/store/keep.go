package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// Run writes until the context is done, then stops cleanly, and returns the context's
// cause. Nothing may be shown after that.
func (l *Log) Run(ctx context.Context) error {
	l.mu.Lock()
	l.logger = klog.FromContext(ctx)
	l.opens = time.AfterFunc(stall, func() { l.stalled(0) })
	l.mu.Unlock()
	l.writers.Go(func() { l.write(0) })
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		l.keep(ctx)
	}()
	<-ctx.Done()
	hangs := time.NewTimer(closing)
	defer hangs.Stop()
	done := make(chan error, 1)
	go func() {
		<-kept
		done <- l.Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			l.logger.Error(err, "Stopping the journal's log failed; after a reboot, subscribers are reset", "dir", l.opts.Dir)
		}
	case <-hangs.C:
		l.logger.Error(errors.New("an fsync does not return"), "The journal's log was not stopped; after a reboot, subscribers are reset", "dir", l.opts.Dir)
	}
	return context.Cause(ctx)
}

// Close ends a log that does not run, or no longer runs. It writes what was appended.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.changed.Broadcast()
	l.mu.Unlock()
	l.writers.Wait()
	l.mu.Lock()
	before, file, named := l.before, l.file, l.synced > 0
	stored := l.mode == healthy && len(l.queue) == 0
	l.mode, l.before, l.file = closed, nil, nil
	if l.opens != nil {
		l.opens.Stop()
	}
	lock := l.lock
	l.lock = nil
	l.mu.Unlock()
	var err error
	if file != nil {
		if stored {
			err = l.syncBefore(before, named)
		}
		if stored && err == nil {
			_, err = file.Write(appendStop(nil, l.opts.Now(), l.ageClock.elapsed()))
			err = cmp.Or(err, file.Sync())
		}
		err = cmp.Or(err, file.Close())
	}
	if before != nil {
		err = cmp.Or(err, before.Close())
	}
	if lock != nil {
		err = cmp.Or(err, lock.Close())
	}
	return err
}

// keep does the work that no set waits for: it syncs, heals the log after a failure, deletes old
// segments, and verifies the segments that the start did not read.
func (l *Log) keep(ctx context.Context) {
	l.open()
	l.prune() // a process that is always killed soon must not fill the disk
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			l.sync()
		case <-ticker.C:
			l.makeRoom()
			l.heal()
			l.check()
			l.sync()
			l.prune()
			l.verify()
			l.changed.Broadcast() // the segment may be old enough for the next
		}
	}
}

// open begins the first segment. It is synced before a set is shown, so that a clean stop of the process before can't be
// taken for one of this process.
func (l *Log) open() {
	s, file, err := l.createSynced()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && l.mode == opening:
		l.installLocked(s, file)
	case err == nil: // the log has failed in the meantime
		l.writers.Go(func() { l.discard(s, file) })
	case l.mode == opening:
		l.failLocked(err)
	}
}

// heal tries in the failed state whether a segment can be written and synced. Then the writer begins one with the state of
// that time.
func (l *Log) heal() {
	l.mu.Lock()
	due := l.mode == failed && !l.works && !time.Now().Before(l.retryAt)
	l.mu.Unlock()
	if !due {
		return
	}
	l.forgetLost()
	s, file, err := l.createSynced()
	if err == nil {
		l.discard(s, file)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.works = err == nil; err != nil {
		l.retryLocked(err)
	}
	l.changed.Broadcast()
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
	before, file, current, written, named := l.before, l.file, l.current, l.written, l.synced > 0
	dirty := file != nil && written > l.synced
	l.mu.Unlock()
	if !dirty {
		return
	}
	err := cmp.Or(l.syncBefore(before, named), file.Sync())
	l.mu.Lock()
	var superseded []*segment
	switch {
	case l.file != file: // the segment failed in the meantime, or the next one was begun
		before = nil
	case err != nil:
		l.failLocked(fmt.Errorf("syncing %s: %w", current.name, err))
		before = nil
	default:
		superseded = l.superseded
		l.synced, l.before, l.superseded = written, nil, nil
		l.changed.Broadcast()
	}
	l.mu.Unlock()
	if before != nil {
		_ = before.Close() // it is synced
	}
	l.remove(superseded)
}

// syncBefore makes durable what comes before the content of a segment: the segment before, and the name of the segment.
func (l *Log) syncBefore(before Appender, named bool) error {
	if before != nil {
		if err := before.Sync(); err != nil {
			return err
		}
	}
	if named {
		return nil
	}
	return l.opts.FS.SyncDir(l.opts.Dir)
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
	passed, bytes := l.ageClock.elapsed(), l.bytesLocked()
	n := 0
	for ; n < len(l.segments); n++ {
		after := l.current
		if l.synced == 0 {
			after = nil // until it is synced, the one before it is needed
		}
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

func (l *Log) remove(segments []*segment) {
	for _, s := range segments {
		if err := l.opts.FS.Remove(filepath.Join(l.opts.Dir, s.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.logger.Error(err, "Removing an old segment of the journal failed", "file", s.name)
		}
	}
	if len(segments) > 0 {
		_ = l.opts.FS.SyncDir(l.opts.Dir) // if a segment returns, it is removed later
	}
}
