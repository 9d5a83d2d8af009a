package journal

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// batchSize is about how many entries a cursor takes at a time.
const batchSize = 64

// Cursor is one reader's place in the journal. Next belongs to one goroutine.
type Cursor struct {
	journal *Journal
	opts    WatchOptions
	id      int64
	opened  time.Time

	// position is the revision up to which the reader has been served.
	position atomic.Int64
	resets   atomic.Int32
	// told is the revision of the last frame.
	told    int64
	started bool
	failed  error
	// entries and frames are those of the last poll, whose memory is used again.
	entries []*entry
	frames  []*Frame
	// view is what the reader holds, in the snapshot modes and to catch up.
	view state
}

// Watch opens a cursor. It must be closed.
func (j *Journal) Watch(opts WatchOptions) *Cursor {
	if opts.Ops == nil {
		opts.Ops = DefaultOperations()
	}
	if opts.Mode == "" {
		opts.Mode = Incremental
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nextID++
	c := &Cursor{journal: j, opts: opts, id: j.nextID, opened: time.Now()}
	c.position.Store(j.head)
	j.cursors[c] = struct{}{}
	return c
}

// Close gives the cursor back.
func (c *Cursor) Close() {
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	delete(c.journal.cursors, c)
	c.journal.leftLocked(c, time.Now())
}

// Next returns the next frames, and waits until there are some or the context is
// done. The slice is good until the next call. Its error is the context's cause, or a CompactedError for a reader that wants
// one.
func (c *Cursor) Next(ctx context.Context) ([]*Frame, error) {
	for {
		frames, changed := c.poll()
		if c.failed != nil {
			return nil, c.failed
		}
		if len(frames) > 0 {
			c.told = frames[len(frames)-1].Revision
			return frames, nil
		}
		if changed == nil {
			continue // there is more to look through
		}
		c.rest()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
			runtime.Gosched() // what is appended with it can come with it: a tenth less work per update and reader
		}
	}
}

// rest lets go of what the last poll had: a cursor at rest holds nothing that has left
// the ring.
func (c *Cursor) rest() {
	if cap(c.entries) > 4*batchSize || cap(c.frames) > 4*batchSize {
		c.entries, c.frames = nil, nil
		return
	}
	clear(c.entries[:cap(c.entries)])
	clear(c.frames[:cap(c.frames)])
}

// poll returns what is there to be told now. Where it returns a channel too, that
// was all there is, and the channel is closed when there is more.
func (c *Cursor) poll() (frames []*Frame, changed <-chan struct{}) {
	j := c.journal
	j.mu.RLock()
	if !c.started {
		c.started = true
		return c.start()
	}
	if c.position.Load() < j.compacted {
		return c.reset(fmt.Sprintf("the reader fell behind: updates up to revision %d are gone", j.compacted))
	}
	entries, complete := j.afterLocked(c.entries[:0], c.position.Load())
	c.entries = entries
	bookmark := j.bookmarkLocked()
	progress := j.progress
	if complete {
		changed = j.changed
	}
	j.mu.RUnlock()

	frames = c.render(c.frames[:0], entries, bookmark)
	c.frames = frames
	if len(entries) > 0 {
		c.position.Store(entries[len(entries)-1].revision)
	}
	if complete && len(frames) == 0 && c.told < progress {
		bookmark.Revision = c.position.Load()
		frames = []*Frame{newFrame(bookmark)}
	}
	return frames, changed
}

// afterLocked appends the entries after a revision, whole source sets, and says whether
// those are all.
func (j *Journal) afterLocked(entries []*entry, revision int64) (_ []*entry, complete bool) {
	n := j.ring.len()
	for i := n - int(j.head-revision); i < n; i++ {
		e := j.ring.at(i)
		entries = append(entries, e)
		if len(entries) >= batchSize && !e.more && i < n-1 {
			return entries, false
		}
	}
	return entries, true
}

// start returns the first frames. It is called with the journal's lock held for
// reading, and gives it back.
func (c *Cursor) start() ([]*Frame, <-chan struct{}) {
	j, since := c.journal, c.opts.Since
	switch {
	case since == nil:
		return c.present("")
	case c.opts.Instance != "" && c.opts.Instance != j.instance:
		return c.reset(fmt.Sprintf("revision %d is of instance %s, this is %s", *since, c.opts.Instance, j.instance))
	}
	if why := j.goneLocked(*since); why != "" {
		return c.reset(why)
	}
	c.position.Store(*since)
	c.told = *since
	if c.keepsView() {
		c.view = maps.Clone(j.state)
		for i := j.ring.len() - 1; i >= 0 && j.ring.at(i).revision > *since; i-- {
			j.ring.at(i).undo(c.view)
		}
	}
	j.mu.RUnlock()
	return nil, nil
}

// goneLocked says why the journal can't go on from a revision; nothing where it can.
func (j *Journal) goneLocked(revision int64) string {
	switch {
	case revision < j.compacted:
		return fmt.Sprintf("revision %d is compacted: updates up to %d are gone", revision, j.compacted)
	case revision > j.head:
		return fmt.Sprintf("revision %d is not one of this instance, whose newest is %d", revision, j.head)
	}
	return ""
}

// keepsView tells whether the cursor has a list of what the reader holds.
func (c *Cursor) keepsView() bool { return c.opts.Mode != Incremental || c.opts.Behind == CatchUp }

// reset tells the reader to forget what it has, and the present state, or what it
// wants instead. As for the lock, see start.
func (c *Cursor) reset(why string) ([]*Frame, <-chan struct{}) {
	c.resets.Add(1)
	c.journal.metrics.resets.Inc()
	switch {
	case c.opts.Behind == Fail:
		c.journal.mu.RUnlock()
		c.failed = &CompactedError{why}
		return nil, nil
	case c.opts.Behind == CatchUp && c.view != nil:
		return c.catchUp()
	}
	return c.present(why)
}

// catchUp returns what leads from the pods that the reader holds to the present ones.
// As for the lock, see start.
func (c *Cursor) catchUp() ([]*Frame, <-chan struct{}) {
	j := c.journal
	view := maps.Clone(j.state)
	e := &entry{revision: j.head}
	bookmark := j.bookmarkLocked()
	c.position.Store(j.head)
	j.mu.RUnlock()

	var removes, adds, updates []*Pod
	for key, p := range c.view {
		if now := view[key]; c.opts.Selector.Matches(p) && (now == nil || !c.opts.Selector.Matches(now)) {
			removes = append(removes, p)
		}
	}
	for key, p := range view {
		switch before := c.view[key]; {
		case before == p || !c.opts.Selector.Matches(p):
		case before == nil || !c.opts.Selector.Matches(before):
			adds = append(adds, p)
		default:
			updates = append(updates, p)
		}
	}
	c.view = view
	batches := []batch{{op: config.REMOVE, pods: removes}, {op: config.ADD, pods: adds}, {op: config.UPDATE, pods: updates}}
	for _, b := range batches {
		sortPods(b.pods)
	}
	return append(e.inOrder(j.instance, batches), newFrame(bookmark)), nil
}

// present returns the present state as frames, after a Reset where why is given.
// As for the lock, see start.
func (c *Cursor) present(why string) ([]*Frame, <-chan struct{}) {
	j := c.journal
	view := maps.Clone(j.state)
	if c.opts.ByName {
		view = j.names.state()
	}
	head := j.head
	bookmark := j.bookmarkLocked()
	orphans := j.runtime.orphans
	c.position.Store(head)
	j.mu.RUnlock()

	var frames []*Frame
	if why != "" {
		reset := bookmark
		reset.Reset, reset.Message = true, why
		frames = append(frames, newFrame(reset))
	}
	if c.keepsView() {
		c.view = view
	}
	pods := c.opts.Selector.filter(view.sorted())
	if c.opts.Mode == Incremental {
		frames = append(frames, c.additions(head, pods)...)
	} else if bookmark.anySeen() && c.opts.Ops[config.SET] {
		frames = append(frames, split(Content{
			Instance: j.instance, Revision: head, Op: config.SET, Source: config.AllSource, Pods: pods,
		})...)
	}
	if c.opts.Ops[config.HOUSEKEEPING] && orphans != nil {
		frames = append(frames, orphans.presentFrames(j.instance, head, &c.opts.Selector)...)
	}
	bookmark.InitialSyncComplete = true
	return append(frames, newFrame(bookmark)), nil
}

// additions returns the pods as ADD, source by source.
func (c *Cursor) additions(revision int64, pods []*Pod) (frames []*Frame) {
	if !c.opts.Ops[config.ADD] {
		return nil
	}
	for len(pods) > 0 {
		n := 1
		for n < len(pods) && pods[n].Source == pods[0].Source {
			n++
		}
		frames = append(frames, split(Content{
			Instance: c.journal.instance, Revision: revision,
			Op: config.ADD, Source: pods[0].Source, Pods: pods[:n],
		})...)
		pods = pods[n:]
	}
	return frames
}

func (j *Journal) bookmarkLocked() Content {
	return Content{
		Instance: j.instance, Revision: j.head, Op: config.BOOKMARK,
		Bookmark: &Bookmark{Ready: j.readyLocked(), Sources: j.sources},
	}
}

func (f *Content) anySeen() bool {
	for _, s := range f.Bookmark.Sources {
		if s.Seen {
			return true
		}
	}
	return false
}
