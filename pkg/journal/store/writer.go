package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// write is the goroutine that writes sets and shows them. If a write hangs, another
// goroutine takes over, and this one ends when the write returns.
func (l *Log) write(generation int) {
	watch := time.AfterFunc(stall, func() { l.stalled(generation) })
	watch.Stop()
	defer watch.Stop()
	var buffer []byte
	for {
		b := l.nextBatch(generation)
		if b == nil {
			return
		}
		if b.roll {
			l.roll(generation, watch)
			continue
		}
		if b.file != nil {
			var n int64
			var err error
			buffer, n, err = writeAll(b.file, b.entries, buffer[:0], watch)
			watch.Stop()
			if !l.wrote(generation, n, err) {
				return
			}
		}
		for _, e := range b.entries {
			if e.show != nil {
				e.show(b.commit)
				e.show = nil
			}
		}
		l.shown()
	}
}

// writeAll writes a batch, about batchBytes at a time. It returns the buffer, for the next
// one.
func writeAll(file Appender, entries []*entry, buffer []byte, watch *time.Timer) ([]byte, int64, error) {
	total := int64(0)
	put := func(p []byte) error {
		for len(p) > 0 {
			part := p[:min(len(p), batchBytes)]
			watch.Reset(stall)
			n, err := file.Write(part)
			total += int64(n)
			if err == nil && n < len(part) {
				err = errors.New("short write")
			}
			if err != nil {
				return err
			}
			p = p[len(part):]
		}
		return nil
	}
	if len(entries) == 1 {
		err := put(entries[0].frames)
		return buffer, total, err
	}
	for _, e := range entries {
		buffer = append(buffer, e.frames...)
	}
	err := put(buffer)
	if cap(buffer) > 2*batchBytes {
		buffer = nil
	}
	return buffer, total, err
}

// batch is the next work of a writer: to begin a new segment, or to write sets and show them. Without a file, they are
// only shown.
type batch struct {
	roll    bool
	entries []*entry
	file    Appender
	commit  journal.Commit
}

// nextBatch waits for sets. It returns nil if this writer must end.
func (l *Log) nextBatch(generation int) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inflight = nil
	for {
		switch {
		case l.generation != generation:
			return nil
		case l.showing: // by the writer before this one
			l.changed.Wait()
		case l.rollDueLocked():
			l.rolling = true
			return &batch{roll: true}
		case l.mode == failed && len(l.queue) > 0:
			if !l.unstored {
				l.instance, l.unstored = newInstance(), true
			}
			b := &batch{entries: l.queue, commit: journal.Commit{Instance: l.instance}}
			l.queue = nil
			l.showLocked(b.entries)
			return b
		case l.mode == healthy && len(l.queue) > 0:
			n, size := 0, 0
			for n < len(l.queue) && (n == 0 || size+len(l.queue[n].frames) <= batchBytes) {
				size += len(l.queue[n].frames)
				n++
			}
			l.inflight = slices.Clone(l.queue[:n])
			l.queue = slices.Delete(l.queue, 0, n)
			return &batch{entries: l.inflight, file: l.file, commit: journal.Commit{Instance: l.instance, Stored: true}}
		case l.closing && (len(l.queue) == 0 || l.mode == opening):
			return nil
		default:
			l.changed.Wait()
		}
	}
}

// wrote records the result of a write, and reports whether the writer continues.
func (l *Log) wrote(generation int, n int64, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation {
		return false
	}
	if err != nil {
		l.failLocked(fmt.Errorf("writing %s: %w", l.current.name, err))
		return false
	}
	l.showLocked(l.inflight)
	l.written += n
	l.metrics.written.Add(float64(n))
	return true
}

// showLocked records that sets are shown now.
func (l *Log) showLocked(entries []*entry) {
	for _, e := range entries {
		l.table = cmp.Or(e.after, l.table)
	}
	l.inflight, l.showing = nil, true
}

// shown records that the sets of a batch have been shown.
func (l *Log) shown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.showing = false
	l.changed.Broadcast()
}

var errStalled = fmt.Errorf("a write takes longer than %v", stall)

// stalled puts the log into the failed state because of a writer that hangs.
func (l *Log) stalled(generation int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.generation != generation:
	case l.mode == opening && !l.closing, l.mode == healthy && (l.rolling || len(l.inflight) > 0):
		l.failLocked(errStalled)
	case l.mode == failed && l.rolling:
		l.retryLocked(errStalled)
		l.replaceWriterLocked()
	}
}

// failLocked puts the log into the failed state. The sets that were not shown yet, and
// all later ones, are shown under another instance. Without such a set, the instance
// stays.
func (l *Log) failLocked(err error) {
	if l.mode == failed || l.mode == closed {
		return
	}
	l.mode, l.cause, l.since, l.unstored = failed, err, l.opts.Now(), false
	l.full = isFull(err)
	if l.file != nil {
		l.current.size = l.written
		l.segments = append(l.segments, l.current)
		for _, file := range []Appender{l.before, l.file} {
			if file != nil {
				l.writers.Go(func() { _ = file.Close() }) // it is not used again, so its error does not matter
			}
		}
		l.before, l.file, l.current = nil, nil, nil
	}
	l.queue, l.inflight = slices.DeleteFunc(slices.Concat(l.inflight, l.queue), func(e *entry) bool { return e.show == nil }), nil
	l.retry = syncEvery
	l.retryAt = time.Now().Add(l.retry)
	l.replaceWriterLocked()
	l.metrics.failures.Inc()
	l.logger.Error(err, "Storing updates failed; the stream goes on from memory, and the next update resets all subscribers", "dir", l.opts.Dir)
}

// retryLocked records in the failed state that no segment could be begun, and when that is tried again.
func (l *Log) retryLocked(err error) {
	l.cause, l.full, l.works = err, isFull(err), false
	l.retry = min(2*l.retry, maxRetry)
	l.retryAt = time.Now().Add(l.retry)
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// replaceWriterLocked starts a writer in place of the present one, which may hang.
func (l *Log) replaceWriterLocked() {
	l.generation++
	l.rolling = false
	generation := l.generation
	l.writers.Go(func() { l.write(generation) })
	l.changed.Broadcast()
}

// wake makes Run check for work.
func (l *Log) wake() {
	await.Signal(l.kick)
}
