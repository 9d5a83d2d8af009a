package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// changeSource appends the update of a source that was added or removed. The removed pods come
// before the bookmark. The store forgets a removed source together with its pods. A source that was added when
// all pods were known has none until its first set: that is known after a restart too.
func (j *Journal) changeSource(u config.PodUpdate) {
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	now, removed := time.Now(), u.Change == config.SourceRemoved
	var changed []store.Source
	if _, ok := in.bookmark.Sources[u.Source]; !removed && !ok && in.bookmark.Known() {
		changed = []store.Source{{Name: u.Source, Seen: true, Time: now}}
	}
	in.bookmark = in.bookmark.after(func(sources map[string]v1alpha1.SourceState) {
		if removed {
			delete(sources, u.Source)
		} else if _, ok := sources[u.Source]; !ok {
			sources[u.Source] = v1alpha1.SourceState{}
		}
	})
	if removed {
		delete(in.attributes, u.Source)
		changed = []store.Source{{Name: u.Source}}
	}
	if len(u.Pods) > 0 {
		set := j.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, now)
		set.sources, changed = changed, nil // stored together
		j.commit(set)
	}
	j.announce(now, changed...)
	if removed {
		for _, m := range []*prometheus.MetricVec{j.metrics.updates.MetricVec, j.metrics.recorded.MetricVec, j.metrics.delivered.MetricVec} {
			m.DeletePartialMatch(prometheus.Labels{"source": u.Source})
		}
	}
}

// WaitSources waits until these are the sources. Its error is the context's cause.
func (j *Journal) WaitSources(ctx context.Context, names []string) error {
	names = slices.Sorted(slices.Values(names))
	for {
		j.mu.RLock()
		bookmark, changed := j.bookmark, j.changed
		j.mu.RUnlock()
		if slices.Equal(slices.Sorted(maps.Keys(bookmark.Sources)), names) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Unseen returns the names of the sources that have not been seen.
func (j *Journal) Unseen() []string {
	j.mu.RLock()
	bookmark := j.bookmark
	j.mu.RUnlock()
	return bookmark.names(func(s v1alpha1.SourceState) bool { return !s.Seen })
}

// AllReady reports whether every source has been seen. It makes the journal a
// config.SourcesReady. A source that was added counts at once, also while the update is being
// stored.
func (j *Journal) AllReady() bool {
	j.intake.mu.Lock()
	ready := j.intake.bookmark.Ready
	j.intake.mu.Unlock()
	j.mu.RLock()
	defer j.mu.RUnlock()
	return ready && j.bookmark.Ready
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

// Forget removes the pods of a source that is no longer configured. It returns their
// number.
func (j *Journal) Forget(source string) (pods int) {
	in := &j.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	u := config.PodUpdate{Op: config.REMOVE, Source: source}
	for key, p := range in.state {
		if key.source == source {
			u.Pods = append(u.Pods, p.Merged)
		}
	}
	slices.SortFunc(u.Pods, config.ComparePods)
	set := in.advance(time.Now())
	if len(u.Pods) > 0 {
		in.head--
		set = j.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, time.Now())
	}
	set.sources = []store.Source{{Name: source}}
	j.commit(set)
	return len(u.Pods)
}
