package view

import (
	"context"
	"runtime"
	"slices"
	"weak"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// lookahead is how many sets a cursor reads at a time.
const lookahead = 64

// Options are what all views have in common.
type Options struct {
	// Selector is which pods are wanted.
	Selector Selector
	// Client says who reads, for the status.
	Client journal.Client
}

// projection is what a view makes of the journal. It belongs to one cursor.
type projection interface {
	// order is of what the present state is told.
	order() journal.Order
	// begin returns the frames with which the present state begins. why says why it is
	// told again; it is empty at the start.
	begin(s *journal.Snapshot, why string) []*Frame
	// present returns a frame of the first of the pods, or nil for nothing, and how many of
	// them it stands for. last says that no more follow.
	present(pods []*journal.Pod, last bool) (f *Frame, taken int)
	// end returns the frames between the last of the present pods and the bookmark.
	end(s *journal.Snapshot) []*Frame
	// frames returns what is told of a set, as a rule from the set's memo. The error is a
	// CompactedError where that can't be had any more.
	frames(set *journal.Set) ([]*Frame, error)
	// delivered is called with each frame that the cursor returns.
	delivered(f *Frame)
	// behind returns the error for a subscriber whose place is gone; nil to begin again.
	behind(err error) error
}

// Cursor is a subscriber's place in the journal. Its methods belong to one goroutine.
type Cursor struct {
	journal    *journal.Journal
	subscriber *journal.Subscriber
	view       projection

	// position is the revision up to which the subscriber has been served, and skip how
	// many frames of what comes next. begun are all of these, for as long as the garbage
	// collector leaves them: most sets don't keep them.
	position int64
	skip     int
	begun    weak.Pointer[[]*Frame]
	// told is the newest revision that the subscriber was given: what it resumes from.
	told int64
	// opening is the present state while it is told; nil after.
	opening *opening
	// sets and out are used again for each reading.
	sets []*journal.Set
	out  []*Frame
	size int
}

// opening is the telling of the present state.
type opening struct {
	snapshot *journal.Snapshot
	// begin are the frames that come first, next is the pod that comes then.
	begin []*Frame
	next  int
}

func newCursor(j *journal.Journal, mode string, ops journal.Operations, client journal.Client) *Cursor {
	return &Cursor{journal: j, subscriber: j.Subscribe(mode, ops, client)}
}

// resume begins after a revision.
func (c *Cursor) resume(revision int64) {
	c.position, c.told = revision, revision
	c.subscriber.MoveTo(revision)
}

// open begins with the present state.
func (c *Cursor) open(why string) {
	s := c.journal.Snapshot(c.view.order())
	c.opening = &opening{snapshot: s, begin: c.view.begin(s, why)}
	c.position, c.skip = s.Revision, 0
	c.subscriber.MoveTo(s.Revision)
}

// Close ends the subscription.
func (c *Cursor) Close() { c.subscriber.Close() }

// Next returns the next frames, of about PieceSize together, and waits until there are
// some or the context is done. Encode them and clear the slice before you wait for the
// client: it is good until the next call, and holds pods alive. The error is the
// context's cause, or a CompactedError where the view says so.
func (c *Cursor) Next(ctx context.Context) ([]*Frame, error) {
	for {
		changed, err := c.poll()
		if len(c.out) > 0 || err != nil {
			return c.out, err
		}
		if changed == nil {
			continue // there is more to look through
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
			runtime.Gosched() // what is appended with it can come with it: a tenth less work per update and subscriber
		}
	}
}

// poll collects what can be told now. Where it returns a channel, that was all, and the
// channel is closed when there is more.
func (c *Cursor) poll() (changed <-chan struct{}, err error) {
	c.out, c.size = c.out[:0], 0
	for c.opening != nil && c.size < PieceSize/2 {
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
	defer clear(c.sets) // a cursor that waits holds nothing that has left the ring
	for _, set := range c.sets {
		whole, err := c.tell(set, reading.Bookmark)
		if err != nil {
			return nil, c.fellBehind(err)
		}
		if !whole {
			return nil, nil
		}
	}
	if reading.Changed != nil && len(c.out) == 0 && c.told < min(reading.Progress, c.position) {
		c.put(bookmark(c.journal.Instance(), c.position, reading.Bookmark))
	}
	return reading.Changed, nil
}

// openMore puts the next frames of the present state.
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
		for _, f := range c.view.end(o.snapshot) {
			c.put(f)
		}
		synced := bookmark(c.journal.Instance(), o.snapshot.Revision, o.snapshot.Bookmark)
		synced.InitialSyncComplete = true
		c.put(synced)
		c.opening = nil
	}
	return nil
}

// tell puts what there is to tell of a set, and says whether that was all of it.
func (c *Cursor) tell(set *journal.Set, present *journal.Bookmark) (whole bool, err error) {
	frames, err := c.framesOf(set, present)
	if err != nil {
		return false, err
	}
	for _, f := range frames[min(c.skip, len(frames)):] {
		if len(c.out) > 0 && (c.size+f.size > PieceSize || len(c.out) == lookahead) {
			begun := frames
			c.begun = weak.Make(&begun)
			return false, nil
		}
		c.put(f)
		c.skip++
	}
	c.position, c.skip = set.Revision, 0
	c.subscriber.MoveTo(c.position)
	return true, nil
}

// framesOf returns the frames of a set.
func (c *Cursor) framesOf(set *journal.Set, present *journal.Bookmark) ([]*Frame, error) {
	if begun := c.begun.Value(); begun != nil && c.skip > 0 {
		return *begun, nil
	}
	frames, err := c.view.frames(set)
	if err == nil && set.Readied {
		frames = append(slices.Clip(frames), bookmark(c.journal.Instance(), set.Revision, present))
	}
	return frames, err
}

func (c *Cursor) put(f *Frame) {
	c.out = append(c.out, f)
	c.size += f.size
	if f.Revision != 0 {
		c.told = f.Revision
	} else if n := len(f.Revisions); n > 0 {
		c.told = f.Revisions[n-1]
	}
	c.view.delivered(f)
}

// fellBehind does what the view does for a subscriber whose place is gone.
func (c *Cursor) fellBehind(err error) error {
	if final := c.view.behind(err); final != nil {
		return final
	}
	c.subscriber.Reset()
	c.open(err.Error())
	return nil
}
