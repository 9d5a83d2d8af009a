package view

import (
	"fmt"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Mode is how a subscriber of the stream is told of changes.
//
// kubelet: PodConfigNotificationMode in pkg/kubelet/config/config.go, up to v1.34.
type Mode string

// The modes.
const (
	// IncrementalMode: what changed, as the merge emits it.
	IncrementalMode Mode = "incremental"
	// SnapshotAndUpdatesMode: all pods as a SET when some came or went, and UPDATE and
	// DELETE for those that changed.
	SnapshotAndUpdatesMode Mode = "snapshot-and-updates"
	// SnapshotMode: all pods as a SET at each change.
	SnapshotMode Mode = "snapshot"
)

// ParseMode returns the mode of that name; IncrementalMode for none.
func ParseMode(name string) (Mode, error) {
	modes := []Mode{IncrementalMode, SnapshotAndUpdatesMode, SnapshotMode}
	if name == "" {
		return IncrementalMode, nil
	}
	if !slices.Contains(modes, Mode(name)) {
		return "", fmt.Errorf("unknown mode %q: want one of %v", name, modes)
	}
	return Mode(name), nil
}

// StreamOptions say what a subscriber of the stream wants.
type StreamOptions struct {
	Options

	Mode Mode
	// Instance and Since say where to resume; Instance may be left out, and so may
	// both: then the present state comes first.
	Instance string
	Since    *int64
	// Ops are the operations wanted; nil stands for DefaultOperations of the mode. BOOKMARK
	// comes in any case.
	Ops journal.Operations
}

// DefaultOperations are those that a subscriber gets that does not say which: the config
// operations, and in the snapshot modes SET. A change of the status alone, RECONCILE, is
// among them in the incremental mode only, as for the kubelet; the other modes have it
// for those who ask.
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

// Stream begins a subscription to the stream of updates. It must be closed.
func Stream(j *journal.Journal, opts StreamOptions) *Cursor {
	if opts.Mode == "" {
		opts.Mode = IncrementalMode
	}
	if opts.Ops == nil {
		opts.Ops = DefaultOperations(opts.Mode)
	}
	c := newCursor(j, string(opts.Mode), opts.Ops, opts.Client)
	told := stream{journal: j, selector: opts.Selector, ops: opts.Ops, mode: opts.Mode}
	if opts.Mode == IncrementalMode {
		c.view = &incremental{stream: told}
	} else {
		c.view = &snapshots{stream: told}
	}
	if opts.Since == nil {
		c.open("")
	} else if err := j.Resumable(opts.Instance, *opts.Since, opts.Ops); err != nil {
		_ = c.fellBehind(err) // the stream begins again
	} else {
		c.resume(*opts.Since)
	}
	return c
}

// stream is what the modes of the stream have in common.
type stream struct {
	journal  *journal.Journal
	selector Selector
	ops      journal.Operations
	mode     Mode
}

func (s *stream) order() journal.Order { return journal.BySource }

// begin tells the subscriber to forget what it has, where it was told something before.
func (s *stream) begin(snapshot *journal.Snapshot, why string) []*Frame {
	if why == "" {
		return nil
	}
	reset := bookmark(s.journal.Instance(), 0, snapshot.Bookmark)
	reset.Reset, reset.Message = true, why
	return []*Frame{reset}
}

// end returns the orphans. They are of no source.
func (s *stream) end(snapshot *journal.Snapshot) []*Frame {
	if !s.ops[config.HOUSEKEEPING] || snapshot.Orphans == nil || s.selector.Source != "" {
		return nil
	}
	return pieces(&Frame{Instance: s.journal.Instance()},
		batch{op: config.HOUSEKEEPING, pods: s.selector.filter(snapshot.Orphans), always: true})
}

func (s *stream) delivered(*Frame) {}

// behind: the subscriber is reset.
func (s *stream) behind(error) error { return nil }

// streamKey is what a set keeps the frames of a stream's view under.
type streamKey struct {
	mode      Mode
	ops       [config.BOOKMARK + 1]bool
	selection selection
}

func (s *stream) key() streamKey {
	key := streamKey{mode: s.mode, selection: s.selector.selection()}
	for op, wanted := range s.ops {
		key.ops[op] = wanted
	}
	return key
}
