package journal

import (
	"maps"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Bookmark is the state of the sources.
type Bookmark struct {
	// Ready: every source has been seen.
	Ready   bool
	Sources map[string]v1alpha1.SourceState

	// known means that once the pods of all sources were known. A source that is added later
	// has no pods before its first set, so all pods are still known.
	known bool
}

// with returns the bookmark after the source has been seen.
func (b *Bookmark) with(source string) *Bookmark {
	return b.after(func(sources map[string]v1alpha1.SourceState) { sources[source] = v1alpha1.SourceState{Seen: true} })
}

// after returns the bookmark after a change of the sources.
func (b *Bookmark) after(change func(map[string]v1alpha1.SourceState)) *Bookmark {
	next := &Bookmark{Ready: true, Sources: maps.Clone(b.Sources), known: b.Known()}
	change(next.Sources)
	for _, s := range next.Sources {
		next.Ready = next.Ready && s.Seen
	}
	return next
}

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
