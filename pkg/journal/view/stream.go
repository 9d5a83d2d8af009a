package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unique"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Mode is the mode of a subscriber of the stream.
//
// kubelet: PodConfigNotificationMode in pkg/kubelet/config/config.go, up to v1.34.
type Mode = v1alpha1.Mode

// The modes.
const (
	IncrementalMode        = v1alpha1.ModeIncremental
	SnapshotAndUpdatesMode = v1alpha1.ModeSnapshotAndUpdates
	SnapshotMode           = v1alpha1.ModeSnapshot
)

// ParseMode returns the mode with the name; IncrementalMode for an empty name.
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case "":
		return IncrementalMode, nil
	case IncrementalMode, SnapshotAndUpdatesMode, SnapshotMode:
		return mode, nil
	}
	return "", fmt.Errorf("unknown mode %q: expected %s, %s or %s", name, IncrementalMode, SnapshotAndUpdatesMode, SnapshotMode)
}

// StreamOptions are the options of Stream.
type StreamOptions struct {
	Options

	Mode Mode
	// Instance and Since are where to resume. Instance may be empty. If Since is nil, the
	// current state comes first.
	Instance string
	Since    *int64
	// Ops are the requested operations; nil means DefaultOperations of the mode. BOOKMARK
	// is always sent.
	Ops journal.Operations
	// Owners is whether frames have the owners of pods too. A change of them is a RECONCILE then.
	Owners bool
	// NamespaceLabels and NodeLabels request the labels and annotations of the namespaces of the pods and of the node, each
	// change in a METADATA.
	NamespaceLabels, NodeLabels bool
}

// DefaultOperations are the operations of a subscriber that requests none: the config
// operations, and in the snapshot modes also SET. As in the kubelet, RECONCILE, a change
// of only the status, is among them in the incremental mode only. In the other modes, a
// subscriber can request it.
func DefaultOperations(mode Mode) journal.Operations {
	ops := journal.Operations{
		config.ADD: true, config.DELETE: true, config.REMOVE: true, config.UPDATE: true,
	}
	if mode == IncrementalMode {
		ops[config.RECONCILE] = true
	} else {
		ops[config.SET] = true
	}
	return ops
}

// Stream starts a subscription to the stream of updates. The caller must close it.
func Stream(j *journal.Journal, opts StreamOptions) *Cursor {
	if opts.Mode == "" {
		opts.Mode = IncrementalMode
	}
	if opts.Ops == nil {
		opts.Ops = DefaultOperations(opts.Mode)
	}
	if opts.Owners {
		opts.Ops = maps.Clone(opts.Ops)
		opts.Ops[config.OWNERS] = true
	}
	c := newCursor(j, string(opts.Mode), opts.Ops, opts.Options)
	common := stream{journal: j, lens: lens{selector: opts.Selector, fields: opts.Fields}, ops: opts.Ops, mode: opts.Mode, owners: opts.Owners}
	common.show(opts.scope.granted())
	if opts.Mode == IncrementalMode {
		c.view = &incremental{stream: common}
	} else {
		c.view = &snapshots{stream: common}
	}
	if opts.NamespaceLabels || opts.NodeLabels {
		c.metadata = &metadata{cursor: c, namespaces: opts.NamespaceLabels, node: opts.NodeLabels}
	}
	if opts.Since == nil {
		c.open("")
	} else if err := cmp.Or(opts.scope.resumable(*opts.Since), j.Resumable(opts.Instance, *opts.Since, opts.Selector.recorded(opts.Ops))); err != nil {
		_ = c.fellBehind(err) // the stream starts again
	} else {
		c.resume(*opts.Since)
		if c.metadata != nil {
			c.metadata.resumed = c.metadata.start(common.lens.filter(j.State().Pods)...)
		}
	}
	return c
}

// stream is the common part of the modes.
type stream struct {
	journal *journal.Journal
	// instance and sources belong to the current state that is being sent.
	instance string
	sources  *journal.Bookmark
	lens     lens
	ops      journal.Operations
	mode     Mode
	owners   bool
	key      unique.Handle[streamKey]
}

func (s *stream) order() journal.Order { return journal.BySource }

// begin sends a reset, unless the subscriber has got nothing yet.
func (s *stream) begin(snapshot *journal.Snapshot, why string) []*Frame {
	s.instance, s.sources = snapshot.Instance, snapshot.Bookmark
	if why == "" {
		return nil
	}
	reset := bookmark(snapshot.Instance, 0, snapshot.Bookmark)
	reset.Reset, reset.Message = true, why
	return []*Frame{reset}
}

// endSnapshot returns the orphans. They have no source.
func (s *stream) endSnapshot(snapshot *journal.Snapshot) []*Frame {
	if !s.ops[config.HOUSEKEEPING] || snapshot.Orphans == nil || s.lens.selector.Source != "" {
		return nil
	}
	return pieces(&Frame{Instance: snapshot.Instance},
		batch{op: config.HOUSEKEEPING, pods: s.lens.filter(snapshot.Orphans), always: true})
}

func (s *stream) delivered(*Frame) {}

// behind: the subscriber gets a reset.
func (s *stream) behind(error) error { return nil }

// owned returns the frames with the owners of their pods, if the subscriber requests them. The frames are new.
func (s *stream) owned(frames ...*Frame) []*Frame {
	if !s.owners {
		return frames
	}
	for _, f := range frames {
		if f == nil {
			continue
		}
		if f.Owners = true; f.Op == config.OWNERS {
			f.Op = config.RECONCILE
		}
	}
	return frames
}

// streamKey is the key of a stream's frames in the memo of a set.
type streamKey struct {
	mode Mode
	ops  [config.OWNERS + 1]bool
	lens lensKey
}

func (s *stream) show(g *access.Grant) {
	s.lens.grant = g
	key := streamKey{mode: s.mode, lens: s.lens.key()}
	for op, wanted := range s.ops {
		key.ops[op] = wanted
	}
	s.key = unique.Make(key)
}

// incremental sends updates as the merge emits them.
type incremental struct {
	stream

	// open is the source whose ADD of the current pods has started and continues.
	open string
}

func (v *incremental) begin(s *journal.Snapshot, why string) []*Frame {
	v.open = ""
	return v.stream.begin(s, why)
}

// present returns the first pods of one source as a piece of an ADD.
func (v *incremental) present(pods []*journal.Pod, last bool) (*Frame, int) {
	source := pods[0].Source
	if !v.ops[config.ADD] {
		return nil, len(pods)
	}
	if v.open != "" && v.open != source {
		return v.close(), 0
	}
	f := &Frame{Instance: v.instance, Op: config.ADD, Source: source, Restored: v.sources.Restored(source), Owners: v.owners}
	n := slices.IndexFunc(pods, func(p *journal.Pod) bool { return p.Source != source })
	ends := last || n >= 0 // otherwise, more pods of the source may follow
	if n < 0 {
		n = len(pods)
	}
	taken := v.lens.fill(f, pods[:n])
	if ends && taken == n {
		return v.whole(f), n
	}
	if nonempty(f) != nil {
		f.Continues, v.open = true, source
	}
	return nonempty(f), taken
}

// whole returns the last piece of a source's ADD; nil for none.
func (v *incremental) whole(f *Frame) *Frame {
	if v.open == "" {
		return nonempty(f)
	}
	v.open = ""
	return f
}

// close returns an empty last piece: none of the source's remaining pods is selected.
func (v *incremental) close() *Frame {
	f := &Frame{Instance: v.instance, Op: config.ADD, Source: v.open, Restored: v.sources.Restored(v.open)}
	v.open = ""
	return f
}

func nonempty(f *Frame) *Frame {
	if len(f.Pods) == 0 {
		return nil
	}
	return f
}

func (v *incremental) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() (frames []*Frame) {
		for _, u := range set.Updates {
			frames = append(frames, v.update(u)...)
		}
		return v.owned(frames...)
	})
}

// update returns the frames of one update. A subscriber that sees all pods gets it as it is.
// For others, pods that they start to see are in an ADD, and pods that they no longer see in a
// REMOVE.
func (s *stream) update(u *journal.Update) []*Frame {
	l := &s.lens
	whole := frameOf(u)
	switch {
	case l.selector.Source != "" && l.selector.Source != u.Source:
		return nil
	case l.selects(u.Mirrors) || len(u.Pods) == 0: // no pods: the first set of a source
		return s.wanted(whole, batch{op: u.Op, pods: u.Pods, always: true})
	case !u.Op.IsConfig() && u.Op != config.OWNERS:
		return s.wanted(whole, batch{op: u.Op, pods: l.filter(u.Pods), always: u.Op == config.HOUSEKEEPING})
	}
	var removes, adds, same []*journal.Pod
	u = u.Once()
	for i := range u.Pods {
		switch was, is := l.changeIn(u, i); {
		case was != nil && is != nil:
			same = append(same, is)
		case is != nil:
			adds = append(adds, is)
		case was != nil:
			removes = append(removes, was)
		}
	}
	return s.wanted(whole, batch{op: config.REMOVE, pods: removes}, batch{op: config.ADD, pods: adds}, batch{op: u.Op, pods: same})
}

// wanted returns the frames of the batches with requested operations.
func (s *stream) wanted(whole *Frame, batches ...batch) []*Frame {
	return pieces(whole, slices.DeleteFunc(batches, func(b batch) bool { return !s.ops[b.op] })...)
}
