package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Bookmark is the state of the sources.
type Bookmark struct {
	// Ready: every source has been seen.
	Ready   bool
	Sources map[string]v1alpha1.SourceState

	// known is true if the pods of all sources have been known before. A source that is added
	// later has no pods before its first set, so all pods are still known.
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

// Restored reports whether the source is restored and not seen.
func (b *Bookmark) Restored(source string) bool {
	s := b.Sources[source]
	return s.Restored && !s.Seen
}

// unknown returns the names of the sources that are neither seen nor restored, in order.
func (b *Bookmark) unknown() []string {
	return b.names(func(s v1alpha1.SourceState) bool { return !known(s) })
}

// AllRestored returns the names of the sources that are restored and not seen, in order.
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

// changeSource appends the update of a source that was added or removed. The REMOVE of a source's
// pods comes before the bookmark. Both the source and its pods leave the store with this set. A
// source that is added while all pods are known is stored as seen: it has no pods before its first
// set, also after a restart.
func (j *Journal) changeSource(u config.PodUpdate) {
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	now, removed := time.Now(), u.Change == config.SourceRemoved
	var changed []Source
	if _, ok := in.bookmark.Sources[u.Source]; !removed && !ok && in.bookmark.Known() {
		changed = []Source{{Name: u.Source, Seen: true, Time: now}}
	} else if removed {
		changed = []Source{{Name: u.Source}}
	}
	for _, s := range changed {
		in.put(s)
	}
	in.bookmark = in.bookmark.after(func(sources map[string]v1alpha1.SourceState) {
		if removed {
			delete(sources, u.Source)
		} else if _, ok := sources[u.Source]; !ok {
			sources[u.Source] = v1alpha1.SourceState{}
		}
	})
	if len(u.Pods) > 0 {
		set := j.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, now)
		set.Sources, changed = changed, nil // stored together
		j.commit(set)
	}
	j.announce(now, changed...)
	if removed {
		for _, m := range []*prometheus.MetricVec{j.metrics.updates.MetricVec, j.metrics.recorded.MetricVec, j.metrics.delivered.MetricVec} {
			m.DeletePartialMatch(prometheus.Labels{"source": u.Source})
		}
	}
}

// wait waits until wanted returns true for the bookmark. Its error is the context's cause.
func (j *Journal) wait(ctx context.Context, wanted func(*Bookmark) bool) error {
	for {
		j.mu.RLock()
		bookmark, changed := j.table.bookmark, j.changed
		j.mu.RUnlock()
		if wanted(bookmark) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// WaitSources waits until these are the sources. Its error is the context's cause.
func (j *Journal) WaitSources(ctx context.Context, names []string) error {
	names = slices.Sorted(slices.Values(names))
	return j.wait(ctx, func(b *Bookmark) bool { return slices.Equal(slices.Sorted(maps.Keys(b.Sources)), names) })
}

// WaitKnown waits until every source has been seen or restored. Its error is the context's
// cause.
func (j *Journal) WaitKnown(ctx context.Context) error { return j.wait(ctx, (*Bookmark).Known) }

// Unseen returns the names of the sources that have not been seen.
func (j *Journal) Unseen() []string {
	return j.present().bookmark.names(func(s v1alpha1.SourceState) bool { return !s.Seen })
}

// AllReady reports whether every source has been seen. It makes the journal a
// config.SourcesReady. A source that was added counts at once, also while the update is being
// stored.
func (j *Journal) AllReady() bool {
	j.intake.mu.Lock()
	ready := j.intake.bookmark.Ready
	j.intake.mu.Unlock()
	return ready && j.present().bookmark.Ready
}

// KindReady reports whether there are sources of a kind, and every one of them has been seen. Like AllReady, it counts a source
// that was added at once.
func (j *Journal) KindReady(kind string) bool {
	j.intake.mu.Lock()
	ready := j.intake.bookmark.kindReady(kind)
	j.intake.mu.Unlock()
	return ready && j.present().bookmark.kindReady(kind)
}

func (b *Bookmark) kindReady(kind string) bool {
	some := false
	for name, s := range b.Sources {
		if config.SourceKind(name) == kind {
			if !s.Seen {
				return false
			}
			some = true
		}
	}
	return some
}

// Restored returns the names of the sources that are restored and not seen, in order.
func (j *Journal) Restored() []string { return j.present().bookmark.AllRestored() }

// CheckKnown returns an error with the sources that are neither seen nor restored, or nil.
func (j *Journal) CheckKnown() error {
	bookmark := j.present().bookmark
	if bookmark.Known() {
		return nil
	}
	return fmt.Errorf("waiting for sources: %s", strings.Join(bookmark.unknown(), ", "))
}

// Forget removes the pods of a source that is no longer configured. It returns their
// number.
func (j *Journal) Forget(source string) (pods int) {
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	u := config.PodUpdate{Op: config.REMOVE, Source: source}
	for p := range in.table.all() {
		if p.Source == source {
			u.Pods = append(u.Pods, p.Merged)
		}
	}
	forgotten := Source{Name: source}
	in.put(forgotten)
	var set *Set
	if now := time.Now(); len(u.Pods) > 0 {
		set = j.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, now)
	} else {
		set = in.advance(now)
	}
	set.Sources = []Source{forgotten}
	j.commit(set)
	return len(u.Pods)
}

// sourceOf returns the name of a current pod's source. The annotation of the pod is not enough: it
// has only the kind of the source.
func (in *intake) sourceOf(pod *v1.Pod) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.uids.pods[pod.UID] {
		if p.Merged == pod {
			return p.Source
		}
	}
	return pod.Annotations[config.ConfigSourceAnnotationKey]
}

// seen records the first update of a source. It is never a REMOVE: another update follows
// in the first set.
func (in *intake) seen(u config.PodUpdate, now time.Time) {
	if u.Op == config.REMOVE {
		return
	}
	if !in.bookmark.Sources[u.Source].Seen {
		in.bookmark = in.bookmark.with(u.Source)
	}
	if !in.sources[u.Source].Seen {
		in.put(Source{Name: u.Source, Seen: true, Time: now})
	}
}

// put replaces what is known of a source. A source that is not seen is forgotten.
func (in *intake) put(s Source) {
	sources := make(map[string]Source, len(in.sources)+1)
	maps.Copy(sources, in.sources)
	if sources[s.Name] = s; !s.Seen {
		delete(sources, s.Name)
	}
	in.sources = sources
}

// remember records the attributes of a source with the set, if they changed.
func (in *intake) remember(set *Set, source string, attributes map[string]string) {
	if maps.Equal(in.sources[source].Attributes, attributes) {
		return
	}
	next := Source{Name: source, Seen: true, Time: set.Time, Attributes: attributes}
	in.put(next)
	set.Sources = append(set.Sources, next)
}
