package view

import (
	"cmp"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// NamesOptions say what a subscriber of names wants.
type NamesOptions struct {
	Options

	// Since is the revision to resume from; nil for the present state first.
	Since *int64
}

// Names begins a subscription to the pod of each name: a name that comes to have a pod is
// an ADD, one that has none any more a REMOVE, all else an UPDATE. Each pod has a revision
// of its own in Revisions, also the present ones, which come in the order of these: a
// client can resume after each pod. One that falls behind gets a CompactedError. It must be
// closed.
func Names(j *journal.Journal, opts NamesOptions) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts.Client)
	v := &names{instance: j.Instance(), selector: opts.Selector}
	c.view = v
	if opts.Since == nil {
		c.open("")
	} else if err := j.Resumable("", *opts.Since, nil); err != nil {
		v.failed = err
		c.subscriber.Reset()
	} else {
		c.resume(*opts.Since)
	}
	return c
}

type names struct {
	instance string
	selector Selector
	// failed is why the subscription can't begin: its place is gone.
	failed error
}

func (v *names) order() journal.Order                     { return journal.ByName }
func (v *names) begin(*journal.Snapshot, string) []*Frame { return nil }
func (v *names) end(*journal.Snapshot) []*Frame           { return nil }
func (v *names) delivered(*Frame)                         {}

func (v *names) behind(err error) error { return cmp.Or(v.failed, err) }

// present returns the first pods as an ADD.
func (v *names) present(pods []*journal.Pod, _ bool) (*Frame, int) {
	f := &Frame{Instance: v.instance, Op: config.ADD}
	for i, p := range pods {
		if !v.selector.Matches(p) {
			continue
		}
		if len(f.Pods) > 0 && f.size+p.Size() > PieceSize {
			return f, i
		}
		f.put(p, p.Revision)
	}
	return nonempty(f), len(pods)
}

func (f *Frame) put(p *journal.Pod, revision int64) {
	f.Pods = append(f.Pods, p)
	f.Revisions = append(f.Revisions, revision)
	f.size += p.Size()
}

// namesKey and uidsKey are what a set keeps the frames of these views under.
type (
	namesKey struct{ selection selection }
	uidsKey  struct{ selection selection }
)

func (v *names) frames(set *journal.Set) ([]*Frame, error) {
	return journal.Once(&set.Memo, namesKey{v.selector.selection()}, func() ([]*Frame, error) {
		return changes(v.instance, &v.selector, set, set.Names), nil
	})
}

// changes returns the frames of changes, those of one operation that follow each other
// together.
func changes(instance string, s *Selector, set *journal.Set, all []journal.Change) (frames []*Frame) {
	var last *Frame
	for _, change := range all {
		was, is := s.was(change.Before), s.was(change.After)
		op, pod := config.UPDATE, change.After
		switch {
		case !was && !is:
			continue
		case !was:
			op = config.ADD
		case !is:
			op, pod = config.REMOVE, change.Before
		}
		if last == nil || last.Op != op || last.size+pod.Size() > PieceSize {
			last = &Frame{Instance: instance, Op: op, Time: set.Time}
			frames = append(frames, last)
		}
		last.put(pod, change.Revision)
	}
	return frames
}
