package view

import (
	"cmp"
	"fmt"
	"maps"
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
	} else if err := cmp.Or(j.Resumable(opts.Instance, *opts.Since, opts.Selector.recorded(opts.Ops)), opts.scope.resumable(*opts.Since)); err != nil {
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
