package journal

import (
	"maps"
	"slices"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// commit makes a set visible, once it is stored. It is the only way into the ring. The
// intake is locked, so sets are committed in the order of their revisions.
func (j *Journal) commit(set *Set) {
	for _, u := range set.Updates {
		j.metrics.updates.WithLabelValues(u.Op.String(), u.Source).Inc()
	}
	if j.store == nil {
		j.show(set, j.Instance())
		return
	}
	j.store.Append(j.intake.stored(set), func(c store.Commit) { j.show(set, c.Instance) })
}

// stored returns what is stored of a set: the updates of the config. Without any, the set
// only advances the revision.
func (in *intake) stored(s *Set) *store.Set {
	set := &store.Set{First: s.First, Revision: s.Revision, Time: s.Time, Sources: s.sources}
	byName := in.renumbered(s)
	named := maps.Clone(byName) // those that are in no update
	for _, u := range s.Updates {
		if !u.Op.IsConfig() {
			continue
		}
		pods := make([]store.Pod, len(u.Pods))
		for i, p := range u.Pods {
			pods[i] = store.Pod{Source: p.Source, Revision: p.Revision, Object: p.Merged, Status: p.Status, File: p.File}
			if byName != nil {
				pods[i].ByName = byName[p.key()]
				delete(named, p.key())
			}
		}
		set.Updates = append(set.Updates, store.Update{
			Revision: u.Revision, Op: u.Op, Source: u.Source, StatusOnly: u.StatusOnly, Pods: pods,
		})
	}
	for _, c := range s.Names {
		if c.After != nil && named[c.After.key()] != 0 {
			set.Named = append(set.Named, store.Pod{Source: c.After.Source, ByName: c.Revision, Object: c.After.Object})
		}
	}
	return set
}

// renumbered returns the pods that have another revision under their name than in the
// state; nil if there are none.
func (in *intake) renumbered(s *Set) (byName map[podKey]int64) {
	for _, c := range s.Names {
		if c.After == nil || in.state[c.After.key()].Revision == c.After.Revision {
			continue
		}
		if byName == nil {
			byName = make(map[podKey]int64)
		}
		byName[c.After.key()] = c.After.Revision
	}
	return byName
}

// remember records the attributes of a source with the set, if they changed.
func (in *intake) remember(set *Set, source string, attributes map[string]string) {
	known := in.attributes[source]
	if len(known) == 0 && len(attributes) == 0 || maps.Equal(known, attributes) {
		return
	}
	in.attributes[source] = attributes
	set.sources = append(set.sources, store.Source{Name: source, Seen: true, Time: set.Time, Attributes: attributes})
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
		set = in.number([]config.PodUpdate{u}, make([][]*Pod, 1), nil, time.Now())
	}
	set.sources = []store.Source{{Name: source}}
	j.commit(set)
	return len(u.Pods)
}
