package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// known reports whether the pods of a source are known: the source has been seen, or its
// last set before a restart was restored.
func known(s v1alpha1.SourceState) bool { return s.Seen || s.Restored }

// Known reports whether every source has been seen or restored. The last known pods count
// until their source delivers a set. A source that was added later does not count: before its
// first set, it has no pods.
func (b *Bookmark) Known() bool { return b.known || len(b.unknown()) == 0 }

// AnyKnown reports whether at least one source has been seen or restored.
func (b *Bookmark) AnyKnown() bool { return len(b.unknown()) < len(b.Sources) }

// Restored reports whether the source is only restored.
func (b *Bookmark) Restored(source string) bool {
	s := b.Sources[source]
	return s.Restored && !s.Seen
}

// unknown returns the names of the sources that are neither seen nor restored, in order.
func (b *Bookmark) unknown() []string {
	return b.names(func(s v1alpha1.SourceState) bool { return !known(s) })
}

// AllRestored returns the names of the sources that are only restored, in order.
func (b *Bookmark) AllRestored() []string {
	return b.names(func(s v1alpha1.SourceState) bool { return s.Restored && !s.Seen })
}

// names returns the names of some of the sources, in order.
func (b *Bookmark) names(selected func(v1alpha1.SourceState) bool) []string {
	var names []string
	for name, s := range b.Sources {
		if selected(s) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Restored returns the names of the sources that are only restored, in order.
func (j *Journal) Restored() []string {
	j.mu.RLock()
	bookmark := j.bookmark
	j.mu.RUnlock()
	return bookmark.AllRestored()
}

// CheckKnown returns an error with the sources that are neither seen nor restored, or nil.
func (j *Journal) CheckKnown() error {
	j.mu.RLock()
	bookmark := j.bookmark
	j.mu.RUnlock()
	if bookmark.Known() {
		return nil
	}
	return fmt.Errorf("waiting for sources: %s", strings.Join(bookmark.unknown(), ", "))
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
