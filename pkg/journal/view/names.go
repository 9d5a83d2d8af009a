package view

import (
	"cmp"
	"unique"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// NamesOptions are the options of Names.
type NamesOptions struct {
	Options

	// Since is the revision to resume from; nil to start with the current state.
	Since *int64
}

// Names starts a subscription to the pod of each name. A name that gets a pod is an ADD, a name that
// loses its pod is a REMOVE, and any other change is an UPDATE. The current pods come in the order of
// revisions. Frame.Revisions has the revision of each pod, and a client can resume after each. A
// subscriber that falls behind gets a CompactedError.
// The caller must close the cursor.
func Names(j *journal.Journal, opts NamesOptions) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts.Options)
	v := &names{lens: lens{selector: opts.Selector, fields: opts.Fields}}
	v.show(opts.scope.granted())
	c.view = v
	if opts.Since == nil {
		c.open("")
	} else if err := cmp.Or(j.Resumable("", *opts.Since, opts.Selector.recorded(nil)), opts.scope.resumable(*opts.Since)); err != nil {
		v.failed = err
	} else {
		c.resume(*opts.Since)
	}
	return c
}

type names struct {
	instance string
	lens     lens
	key      unique.Handle[namesKey]
	// failed is why the subscription can't start: the revision is compacted.
	failed error
}

func (v *names) show(g *access.Grant) {
	v.lens.grant = g
	v.key = unique.Make(namesKey{v.lens.key()})
}

func (v *names) order() journal.Order { return journal.ByName }
func (v *names) begin(s *journal.Snapshot, _ string) []*Frame {
	v.instance = s.Instance
	return nil
}

func (v *names) endSnapshot(*journal.Snapshot) []*Frame { return nil }
func (v *names) delivered(*Frame)                       {}

func (v *names) behind(err error) error { return cmp.Or(v.failed, err) }

// present returns the first pods as an ADD.
func (v *names) present(pods []*journal.Pod, _ bool) (*Frame, int) {
	f := &Frame{Instance: v.instance, Op: config.ADD}
	taken := v.lens.fill(f, pods)
	for _, p := range f.Pods {
		f.Revisions = append(f.Revisions, p.Revision)
	}
	return nonempty(f), taken
}

func (f *Frame) put(p *journal.Pod, revision int64) {
	f.addPod(p)
	f.Revisions = append(f.Revisions, revision)
}

// namesKey and uidsKey are the keys of these views in the memo of a set.
type (
	namesKey struct{ lens lensKey }
	uidsKey  struct{ lens lensKey }
)

func (v *names) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() []*Frame { return changes(&v.lens, set, set.Names) })
}

// changes returns the frames of changes. Consecutive changes with the same operation are
// in one frame.
func changes(l *lens, set *journal.Set, all []journal.Change) (frames []*Frame) {
	var last *Frame
	for _, change := range all {
		was, is := l.change(change.Before, change.After)
		op, pod := config.UPDATE, is
		switch {
		case was == nil && is == nil, was != nil && is != nil && change.OwnersOnly():
			continue
		case was == nil:
			op = config.ADD
		case is == nil:
			op, pod = config.REMOVE, was
		}
		if last == nil || last.Op != op || !last.fits(pod) {
			last = &Frame{Instance: set.Instance, Op: op, Time: set.Time}
			frames = append(frames, last)
		}
		last.put(pod, change.Revision)
	}
	return frames
}
