package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// state is the result of the sets. It shares its pods with the journal.
type state struct {
	revision, ceiling int64
	note              string
	// latest is the latest time of all sets.
	latest  time.Time
	pods    map[podKey]kept
	sources map[string]journal.Source
}

// kept is a pod of the state.
type kept struct {
	*journal.Pod
	// byName is the revision of the pod's name; 0 if the name has the revision of the version.
	byName int64
}

// podKey identifies a pod: versions of the same pod have the same key.
type podKey struct {
	source string
	uid    types.UID
}

func keyOf(p *journal.Pod) podKey { return podKey{p.Source, p.Object.UID} }

func newState() *state {
	return &state{pods: make(map[podKey]kept), sources: make(map[string]journal.Source)}
}

// renumbered returns the pods whose name has another revision than the version of the pod.
func renumbered(set *journal.Set) (byName map[podKey]int64) {
	for _, c := range set.Names {
		if c.After == nil || isVersion(set, c) {
			continue
		}
		if byName == nil {
			byName = make(map[podKey]int64)
		}
		byName[keyOf(c.After)] = c.Revision
	}
	return byName
}

// isVersion reports whether the pod that a name got is a version that the set made.
func isVersion(set *journal.Set, c journal.Change) bool {
	for _, u := range set.Updates {
		if i := c.Revision - u.First; u.Op.IsConfig() && i >= 0 && i < int64(len(u.Pods)) {
			return u.Pods[i].Revision == c.Revision && keyOf(u.Pods[i]) == keyOf(c.After)
		}
	}
	return false
}

// apply applies a set to the state. A stored REMOVE has only the names of its pods. If
// whole is true, its pods are replaced by the versions that it removes.
func (s *state) apply(set *journal.Set, whole bool) {
	for _, u := range set.Updates {
		if !u.Op.IsConfig() {
			continue
		}
		for k, p := range u.Pods {
			key := podKey{u.Source, p.Object.UID}
			if u.Op != config.REMOVE {
				s.pods[key] = kept{Pod: p}
				continue
			}
			if before, ok := s.pods[key]; ok && whole {
				u.Pods[k] = before.Pod
			}
			delete(s.pods, key)
		}
		if source := s.sources[u.Source]; u.Source != "" && !u.StatusOnly {
			source.Name, source.Seen, source.Time = u.Source, true, set.Time
			s.sources[u.Source] = source
		}
	}
	s.renumber(renumbered(set))
	for _, source := range set.Sources {
		if source.Seen {
			s.sources[source.Name] = source
		} else { // it is forgotten
			delete(s.sources, source.Name)
		}
	}
	s.revision = set.Revision
	if set.Time.After(s.latest) {
		s.latest = set.Time
	}
}

func (s *state) renumber(byName map[podKey]int64) {
	for key, revision := range byName {
		if p, ok := s.pods[key]; ok {
			p.byName = revision
			s.pods[key] = p
		}
	}
}

// load loads a snapshot.
func (s *state) load(snapshot *journal.Set, base int64) {
	clear(s.pods)
	clear(s.sources)
	for _, p := range snapshot.Updates[0].Pods {
		s.pods[keyOf(p)] = kept{Pod: p}
	}
	s.renumber(renumbered(snapshot))
	for _, source := range snapshot.Sources {
		s.sources[source.Name] = source
	}
	s.revision = base
}

// sorted returns the pods by source, namespace, name and UID.
func (s *state) sorted() []kept {
	return slices.SortedFunc(maps.Values(s.pods), func(a, b kept) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), config.ComparePods(a.Object, b.Object))
	})
}
