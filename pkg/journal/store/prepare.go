package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// preparation is a segment that is being created while sets are written elsewhere.
type preparation struct {
	header  header
	segment *segment
	// from is the number of the last set in the snapshot. table is the snapshot.
	from  uint64
	table *journal.Table
	// before is the segment that is written in the meantime, or nil.
	before Appender
	// queue has the sets after the snapshot. behind is their size.
	queue  []*entry
	behind int64

	file Appender
	// size is the size of the header and the snapshot.
	size int64
	// ready: the writer may change over. installed: it has.
	ready, installed bool
}

func (n *preparation) add(e *entry) {
	n.queue = append(n.queue, e)
	n.behind += int64(len(e.frames))
}

// prepareLocked starts a preparation.
func (l *Log) prepareLocked() *preparation {
	l.ceiling = max(l.ceiling, l.table.Revision()+reserve)
	n := &preparation{
		header: header{
			Instance: l.instance, Node: l.opts.Node, BootID: l.opts.BootID, Created: l.opts.Now(),
			Latest: l.latest, Passed: l.passing.passed(), Base: l.table.Revision(), Ceiling: l.ceiling,
			Note: l.note,
		},
		from: l.numbered, table: l.table, before: l.file,
	}
	switch k := len(l.segments); {
	case l.file != nil:
		n.header.Predecessor, n.header.PredecessorSize, n.header.Rolled = l.current.number, l.enqueued, true
	case l.replaced != nil:
		n.header.Predecessor, n.header.PredecessorSize = l.replaced.header.Predecessor, l.replaced.header.PredecessorSize
	case k > 0:
		n.header.Predecessor, n.header.PredecessorSize = l.segments[k-1].number, l.segments[k-1].size
	}
	l.next = n
	return n
}

// prepare creates a segment and makes the writer change over to it.
func (l *Log) prepare() error {
	l.mu.Lock()
	n := l.prepareLocked()
	l.mu.Unlock()
	return l.complete(n)
}

// complete creates the segment of a preparation that has started.
func (l *Log) complete(n *preparation) error {
	err := l.make(n)
	if err == nil && n.before != nil {
		err = l.finish(n)
	}
	l.mu.Lock()
	if err == nil && l.next == n && l.instance == n.header.Instance {
		n.ready = true
		l.changed.Broadcast()
		for l.next == n {
			l.changed.Wait()
		}
	}
	if l.next == n {
		l.next = nil
	}
	installed := n.installed
	l.mu.Unlock()
	if installed {
		if n.before != nil {
			_ = n.before.Close() // it is synced as far as it counts
		}
		l.dropSuperseded()
		return nil
	}
	if n.file != nil {
		_ = n.file.Close()                                              // it is removed now
		_ = l.opts.FS.Remove(filepath.Join(l.opts.Dir, n.segment.name)) // a start ignores it
	}
	if err == nil {
		err = errAbandoned
	}
	return err
}

var (
	errAbandoned = errors.New("abandoned")
	// errBefore means that the previous segment can't be synced.
	errBefore = errors.New("syncing the segment before")
)

// make creates the file, writes header and snapshot, and syncs it.
func (l *Log) make(n *preparation) error {
	number, err := l.number()
	if err != nil {
		return err
	}
	n.segment = &segment{number: number, name: segmentName(number), header: &n.header, verified: true}
	if n.file, err = l.opts.FS.Create(filepath.Join(l.opts.Dir, n.segment.name)); err != nil {
		return err
	}
	err = writeSnapshot(&n.header, n.table, func(p []byte) error {
		written, err := n.file.Write(p)
		n.size += int64(written)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", n.segment.name, err)
	}
	n.table = nil
	if err := n.file.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", n.segment.name, err)
	}
	if err := l.opts.FS.SyncDir(l.opts.Dir); err != nil {
		return fmt.Errorf("syncing the state directory: %w", err)
	}
	return nil
}

// number returns the number of the next segment. If the directory or its lock file is
// gone, it creates them.
func (l *Log) number() (uint64, error) {
	names, err := l.opts.FS.List(l.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("listing the state directory: %w", err)
	}
	if l.lock == nil || !slices.Contains(names, lockName) {
		if l.lock != nil {
			_ = l.lock.Close() // no other process can find that file
			l.lock = nil
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

// finish syncs the current segment, up to the snapshot of the next.
func (l *Log) finish(n *preparation) error {
	l.mu.Lock()
	for l.next == n && l.written < n.header.PredecessorSize {
		l.changed.Wait()
	}
	current := l.next == n
	l.mu.Unlock()
	if !current {
		return errAbandoned
	}
	if err := n.before.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errBefore, err)
	}
	return nil
}

// dropSuperseded removes the segments whose whole content is in the current one.
func (l *Log) dropSuperseded() {
	l.mu.Lock()
	superseded := l.superseded
	l.superseded = nil
	l.mu.Unlock()
	l.remove(superseded)
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
