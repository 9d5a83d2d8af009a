package view

import (
	"cmp"
	"context"
	"runtime"
	"time"
	"weak"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// lookahead is the number of sets that a cursor reads at a time.
const lookahead = 64

// Options are common to all views.
type Options struct {
	// Selector selects the pods.
	Selector Selector
	// Fields are the fields of the pods to send; nil for all. Changes of other fields send
	// nothing. metadata.name, metadata.namespace and metadata.uid are always sent.
	Fields *podfields.Mask
	// Client is for the status.
	Client journal.Client
	// scope is what the subscriber may see; nil for everything.
	scope *Scope
}

// projection is the part of a view that differs. It belongs to one cursor.
type projection interface {
	// show sets what the subscriber may see, before the first frame and before the frames that
	// follow behind.
	show(g *access.Grant)
	// order is the order of the current state.
	order() journal.Order
	// begin returns the first frames of the current state. why is the reason for sending
	// it again; it is empty at the start.
	begin(s *journal.Snapshot, why string) []*Frame
	// present returns a frame of the first of the pods, or nil for none, and the number
	// of pods that it covers. last means that no more pods follow.
	present(pods []*journal.Pod, last bool) (f *Frame, taken int)
	// endSnapshot returns the frames between the current pods and the bookmark.
	endSnapshot(s *journal.Snapshot) []*Frame
	// frames returns the frames of a set, usually from the set's memo.
	frames(set *journal.Set) []*Frame
	// delivered is called with each frame that the cursor returns.
	delivered(f *Frame)
	// behind returns the error for a subscriber that fell behind; nil to start again.
	behind(err error) error
}

// Cursor is a subscriber's position in the journal. Its methods belong to one goroutine.
type Cursor struct {
	journal    *journal.Journal
	subscriber *journal.Subscriber
	view       projection

	// scope is what the subscriber may see; nil for everything.
	scope *Scope
	// position is the revision that the subscriber has reached. skip is the number of frames of the
	// next set that it has got. begun are all frames of this set: most sets do not cache their
	// frames. The garbage collector may free them.
	position int64
	skip     int
	begun    weak.Pointer[[]*Frame]
	// sent is the newest revision that the subscriber got, from which it resumes.
	sent int64
	// opening is set while the current state is sent.
	opening *opening
	// sets and out are reused for each reading.
	sets []*journal.Set
	out  []*Frame
	size int

	// metadata is what the subscriber gets beside its pods; nil for nothing.
	metadata *metadata

	// handed are the origins of what Next returned and the caller has not written.
	handed []*journal.Origin
}

// opening is the progress in sending the current state.
type opening struct {
	snapshot *journal.Snapshot
	// begin are the first frames. next is the next pod after them.
	begin []*Frame
	next  int
}

func newCursor(j *journal.Journal, mode string, ops journal.Operations, opts Options) *Cursor {
	return &Cursor{journal: j, subscriber: j.Subscribe(mode, ops, opts.Client), scope: opts.scope}
}

// resume starts after a revision.
func (c *Cursor) resume(revision int64) {
	c.position, c.sent = revision, revision
	c.subscriber.MoveTo(revision)
}

// open starts with the current state.
func (c *Cursor) open(why string) {
	s := c.journal.Snapshot(c.view.order())
	c.opening = &opening{snapshot: s, begin: c.view.begin(s, why)}
	if c.metadata != nil {
		c.metadata.resumed = nil
		c.opening.begin = append(c.opening.begin, c.metadata.start()...)
	}
	c.position, c.skip = s.Revision, 0
	c.subscriber.MoveTo(s.Revision)
}

// Close ends the subscription.
func (c *Cursor) Close() { c.subscriber.Close() }

// Next returns the next frames, together about BatchSize. It waits until there are some
// or the context is done. The slice is valid until the next call, and holds pods. So
// encode the frames and clear the slice before you wait for the client. The error is the
// context's cause, a CompactedError if the view returns one, or the error of Scope.Err. Call Next after the last frames are written: it measures their delay.
func (c *Cursor) Next(ctx context.Context) ([]*Frame, error) {
	c.written()
	if ctx.Err() != nil { // also if there are frames: a client may always be behind
		return nil, context.Cause(ctx)
	}
	for {
		changed, err := c.read()
		if len(c.out) > 0 || err != nil {
			return c.out, err
		}
		if changed == nil {
			continue // there are more sets to read
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.scope.replaced():
		case <-changed:
			runtime.Gosched() // an update that is appended next can be sent together with it: 10 % less work per update and subscriber
		}
	}
}

// written measures the delay of what the caller has written.
func (c *Cursor) written() {
	if len(c.handed) == 0 {
		return
	}
	now := time.Now()
	for i, origin := range c.handed {
		origin.Delivered(now)
		c.handed[i] = nil
	}
	c.handed = c.handed[:0]
}

// poll collects the frames that are available. If it returns a channel, there are no
// more, and the channel is closed when there are.
func (c *Cursor) poll() (changed <-chan struct{}, err error) {
	c.out, c.size = c.out[:0], 0
	for m := c.metadata; m != nil && len(m.resumed) > 0; m.resumed = m.resumed[1:] {
		if c.size > BatchSize-PieceSize {
			return nil, nil
		}
		c.put(m.resumed[0])
	}
	for c.opening != nil && c.size < BatchSize-PieceSize {
		if err := c.openMore(); err != nil {
			return nil, c.fellBehind(err)
		}
	}
	if c.opening != nil {
		return nil, nil
	}
	reading, err := c.journal.After(c.position, c.sets[:0], lookahead)
	if err != nil {
		return nil, c.fellBehind(err)
	}
	c.sets = reading.Sets
	defer clear(c.sets) // a waiting cursor holds nothing that has left the ring
	for _, set := range c.sets {
		if !c.addSet(set) || c.size > BatchSize { // with what the metadata added
			return nil, nil
		}
	}
	if reading.Changed != nil && len(c.out) == 0 && c.sent < min(reading.Progress, c.position) {
		c.put(bookmark(reading.Instance, c.position, reading.Bookmark))
	}
	return reading.Changed, nil
}

// openMore adds the next frames of the current state.
func (c *Cursor) openMore() error {
	o := c.opening
	switch {
	case len(o.begin) > 0:
		c.put(o.begin[0])
		o.begin = o.begin[1:]
	case o.next < o.snapshot.Len:
		to := min(o.next+lookahead, o.snapshot.Len)
		pods, err := o.snapshot.Pods(o.next, to)
		if err != nil {
			return err
		}
		f, taken := c.view.present(pods, to == o.snapshot.Len)
		if o.next += taken; f != nil {
			c.put(f)
		}
	default:
		c.put(c.view.endSnapshot(o.snapshot)...)
		synced := bookmark(o.snapshot.Instance, o.snapshot.Revision, o.snapshot.Bookmark)
		synced.InitialSyncComplete = true
		c.put(synced)
		c.opening = nil
	}
	return nil
}

// addSet adds the frames of a set, and reports whether these were all.
func (c *Cursor) addSet(set *journal.Set) (whole bool) {
	frames := c.framesOf(set)
	for _, f := range frames[min(c.skip, len(frames)):] {
		if len(c.out) > 0 && (c.size+f.size > BatchSize || len(c.out) == lookahead) {
			if c.skip > 0 {
				begun := frames
				c.begun = weak.Make(&begun)
			}
			return false
		}
		c.put(f)
		c.skip++
	}
	if c.metadata != nil {
		c.put(c.metadata.after(set)...)
	}
	if set.Origin != nil && len(frames) > 0 && c.subscriber.Live(set) {
		c.handed = append(c.handed, set.Origin)
	}
	c.position, c.skip = set.Revision, 0
	c.subscriber.MoveTo(c.position)
	return true
}

// framesOf returns the frames of a set.
func (c *Cursor) framesOf(set *journal.Set) []*Frame {
	if begun := c.begun.Value(); begun != nil && c.skip > 0 {
		return *begun
	}
	if set.Readied {
		return []*Frame{bookmark(set.Instance, set.Revision, set.Bookmark)}
	}
	return c.view.frames(set)
}

// memoized returns the frames that the first call for the key has computed, while the set is one of the newest.
func memoized(set *journal.Set, key any, frames func() []*Frame) []*Frame {
	of, _ := journal.Once(&set.Memo, key, func() ([]*Frame, error) { return frames(), nil }) // it never fails
	return of
}

// put adds frames to those that Next returns, each after the metadata that its pods need.
func (c *Cursor) put(frames ...*Frame) {
	for _, f := range frames {
		if c.metadata != nil {
			c.put(c.metadata.before(f)...)
		}
		c.out = append(c.out, f)
		c.size += f.size
		if f.Revision != 0 {
			c.sent = f.Revision
		} else if n := len(f.Revisions); n > 0 {
			c.sent = f.Revisions[n-1]
		}
		c.view.delivered(f)
	}
}

// read polls while the access rules stay the same. If they changed, and the subscriber sees something
// else now, it starts again. If what it sees can't be determined, the subscription ends.
func (c *Cursor) read() (changed <-chan struct{}, err error) {
	if c.scope == nil {
		return c.poll()
	}
	mu := &c.scope.gate.mu
	mu.RLock()
	defer mu.RUnlock()
	next, err := c.scope.renewedLocked()
	if err != nil { // nothing is known of what the subscriber may see: it can resume
		c.out, c.size = c.out[:0], 0
		return nil, err
	}
	if next != nil {
		before := c.scope
		if c.scope = next; next.grant.Key() != before.grant.Key() {
			c.out, c.begun = c.out[:0], weak.Pointer[[]*Frame]{}
			c.view.show(next.grant)
			if err := c.fellBehind(errNewRules); err != nil {
				return nil, err
			}
		}
	}
	return c.poll()
}

// errNewRules ends a subscription, or starts it again, if its subscriber sees something else because of
// new access rules.
var errNewRules = journal.Compacted(journal.ResetAccess, "the access rules changed")

// fellBehind ends the subscription of a subscriber that fell behind, or starts it again. The view
// decides.
func (c *Cursor) fellBehind(err error) error {
	final := c.view.behind(err)
	c.subscriber.Reset(cmp.Or(final, err))
	if final != nil {
		return final
	}
	c.open(err.Error())
	return nil
}
