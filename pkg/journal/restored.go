package journal

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// known reports whether the pods of a source are known: the source has been seen, or its
// last set before a restart was restored.
func known(s v1alpha1.SourceState) bool { return s.Seen || s.Restored }

// Known reports whether every source has been seen or restored. The last known pods count
// until their source delivers a set.
func (b *Bookmark) Known() bool {
	for _, s := range b.Sources {
		if !known(s) {
			return false
		}
	}
	return true
}

// AnyKnown reports whether at least one source has been seen or restored.
func (b *Bookmark) AnyKnown() bool {
	for _, s := range b.Sources {
		if known(s) {
			return true
		}
	}
	return false
}

// Restored returns the names of the sources that are only restored, in order.
func (b *Bookmark) Restored() []string {
	var restored []string
	for name, s := range b.Sources {
		if s.Restored && !s.Seen {
			restored = append(restored, name)
		}
	}
	slices.Sort(restored)
	return restored
}

// Restored returns the names of the sources that are only restored, in order.
func (j *Journal) Restored() []string {
	j.mu.RLock()
	bookmark := j.bookmark
	j.mu.RUnlock()
	return bookmark.Restored()
}

// WaitKnown waits until every source has been seen or restored. Its error is the context's
// cause.
func (j *Journal) WaitKnown(ctx context.Context) error {
	for {
		j.mu.RLock()
		bookmark, changed := j.bookmark, j.changed
		j.mu.RUnlock()
		if bookmark.Known() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Restore adds the pods that a source had before a restart. It must be called before the
// journal is used.
func (j *Journal) Restore(source string, pods ...*v1.Pod) {
	u := config.PodUpdate{Op: config.ADD, Source: source, Pods: pods}
	set := j.intake.number([]config.PodUpdate{u}, [][]*Pod{prepare(u)}, nil, time.Now())
	set.bookmark.Ready, set.bookmark.Sources[source] = false, v1alpha1.SourceState{Restored: true}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.applyLocked(set)
	j.compacted, j.progress = j.head, j.head
}
