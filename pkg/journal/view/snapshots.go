package view

import (
	"slices"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// snapshots sends all pods at each change, in the snapshot modes.
//
// kubelet: pkg/kubelet/config/config.go Merge, up to v1.34.
type snapshots struct {
	stream

	// open is whether a SET has started and continues.
	open bool
}

func (v *snapshots) begin(s *journal.Snapshot, why string) []*Frame {
	v.open = v.ops[config.SET] && s.Bookmark.AnyKnown()
	return v.stream.begin(s, why)
}

// present returns the first pods as a piece of a SET.
func (v *snapshots) present(pods []*journal.Pod, last bool) (*Frame, int) {
	if !v.open {
		return nil, len(pods)
	}
	f := &Frame{Instance: v.instance, Op: config.SET, Source: config.AllSource, Continues: true, Owners: v.owners}
	taken := v.lens.fill(f, pods)
	f.Restored = anyRestored(f.Pods, v.sources)
	if last && taken == len(pods) {
		v.open, f.Continues = false, false
		return f, taken
	}
	return nonempty(f), taken
}

// anyRestored reports whether one of the pods is from before a restart.
func anyRestored(pods []*journal.Pod, sources *journal.Bookmark) bool {
	return slices.ContainsFunc(pods, func(p *journal.Pod) bool { return sources.Restored(p.Source) })
}

// endSnapshot returns the SET if there are no pods.
func (v *snapshots) endSnapshot(s *journal.Snapshot) (frames []*Frame) {
	if v.open {
		v.open = false
		frames = []*Frame{{Instance: s.Instance, Op: config.SET, Source: config.AllSource}}
	}
	return append(frames, v.stream.endSnapshot(s)...)
}

func (v *snapshots) frames(set *journal.Set) []*Frame {
	return memoized(set, v.key, func() []*Frame {
		if len(set.Updates) > 0 && !set.Updates[0].Op.IsConfig() && set.Updates[0].Op != config.OWNERS {
			return v.owned(v.update(set.Updates[0])...)
		}
		return v.owned(v.set(set)...)
	})
}

// set returns the frames of a set. The SET comes first, with the state after the set.
func (v *snapshots) set(set *journal.Set) []*Frame {
	var frames, changes []*Frame
	revision := v.revision(set)
	if revision != nil && v.ops[config.SET] {
		frames = pieces(frameOf(revision), batch{op: config.SET, pods: v.lens.filter(set.Pods()), always: true})
		if len(set.Bookmark.AllRestored()) > 0 {
			for _, f := range frames {
				f.Restored = anyRestored(f.Pods, set.Bookmark)
			}
		}
	}
	for _, u := range set.Updates {
		switch u.Op {
		case config.UPDATE, config.DELETE, config.RECONCILE:
			if v.mode == SnapshotAndUpdatesMode {
				changes = append(changes, v.changed(u)...)
			}
		case config.OWNERS:
			changes = append(changes, v.changed(u)...)
		}
	}
	// If the SET covers later updates than the first change, it has no revision. A
	// subscriber that resumed from there would miss that change.
	if n := len(frames); n > 0 && len(changes) > 0 && frames[n-1].Revision >= first(changes) {
		frames[n-1].Revision, frames[n-1].Continues = 0, true
	}
	return append(frames, changes...)
}

// first returns the first revision of the frames.
func first(frames []*Frame) int64 {
	for _, f := range frames {
		if f.Revision != 0 {
			return f.Revision
		}
	}
	return 0
}

// revision returns the last update of the set that the SET covers; nil for none.
func (v *snapshots) revision(set *journal.Set) (last *journal.Update) {
	for _, u := range set.Updates {
		if !v.concerns(u) {
			continue
		}
		if v.reselects(u) {
			last = u
		}
		switch u.Op {
		case config.ADD, config.REMOVE:
			last = u
		case config.UPDATE, config.DELETE:
			if v.mode == SnapshotMode {
				last = u
			}
		case config.RECONCILE:
			if v.mode == SnapshotMode && v.ops[config.RECONCILE] {
				last = u
			}
		}
	}
	return last
}

// changed returns the frames of an update without the pods that start or stop to match.
// The SET covers those.
func (v *snapshots) changed(u *journal.Update) []*Frame {
	if v.lens.everything() {
		return v.update(u)
	}
	var same []*journal.Pod
	once := u.Once()
	for i := range once.Pods {
		if was, is := v.lens.changeIn(once, i); was != nil && is != nil {
			same = append(same, is)
		}
	}
	return v.wanted(frameOf(u), batch{op: u.Op, pods: same})
}

// reselects reports whether a pod starts or stops to match with the update.
func (v *snapshots) reselects(u *journal.Update) bool {
	if v.lens.everything() {
		return false
	}
	for i := range u.Pods {
		if u.Before[i] == nil {
			continue
		}
		if was, is := v.lens.changeIn(u, i); (was != nil) != (is != nil) {
			return true
		}
	}
	return false
}

// concerns reports whether the update changes what the subscriber sees, or is the empty first
// set of a source.
func (v *snapshots) concerns(u *journal.Update) bool {
	switch {
	case v.lens.selector.Source != "" && v.lens.selector.Source != u.Source:
		return false
	case v.lens.everything() || len(u.Pods) == 0:
		return true
	}
	for i := range u.Pods {
		if was, is := v.lens.changeIn(u, i); was != nil || is != nil {
			return true
		}
	}
	return false
}
