package journal

import (
	"context"
	"maps"
	"slices"
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
	if _, there := in.bookmark.Sources[u.Source]; !removed && !there && in.bookmark.Known() {
		changed = []store.Source{{Name: u.Source, Seen: true, Time: now}}
	}
	in.bookmark = in.bookmark.after(func(sources map[string]v1alpha1.SourceState) {
		if removed {
			delete(sources, u.Source)
		} else if _, there := sources[u.Source]; !there {
			sources[u.Source] = v1alpha1.SourceState{}
		}
	})
	if removed {
		delete(in.attributes, u.Source)
		changed = []store.Source{{Name: u.Source}}
	}
	if len(u.Pods) > 0 {
		set := in.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, now)
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

// SetLimits changes Options.MaxUpdates and Options.MaxBytes. Sets beyond the new limits leave
// the ring at once.
func (j *Journal) SetLimits(maxUpdates int, maxBytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maxUpdates, j.maxBytes = maxUpdates, maxBytes
	j.shrinkLocked()
}
