package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// state is the result of the sets. It shares its pods with the journal.
type state struct {
	revision, ceiling int64
	// latest is the latest time of all sets.
	latest  time.Time
	pods    map[podKey]Pod
	sources map[string]Source
}

// podKey identifies a pod: versions of the same pod have the same key.
type podKey struct {
	source string
	uid    types.UID
}

func newState() *state {
	return &state{pods: make(map[podKey]Pod), sources: make(map[string]Source)}
}

// apply applies a set to the state. A stored REMOVE has only the names of its pods. If
// whole is true, its pods are replaced by the versions that it removes.
func (s *state) apply(set *Set, whole bool) {
	for i := range set.Updates {
		u := &set.Updates[i]
		for k := range u.Pods {
			p := &u.Pods[k]
			key := podKey{u.Source, p.Object.UID}
			if u.Op != config.REMOVE {
				s.pods[key] = Pod{u.Source, p.Revision, p.ByName, p.Object, p.Status, p.File, p.TooLarge}
				continue
			}
			if before, ok := s.pods[key]; ok && whole {
				*p = before
			}
			delete(s.pods, key)
		}
		if source := s.sources[u.Source]; u.Op.IsConfig() && u.Source != "" && !u.StatusOnly {
			source.Name, source.Seen, source.Time = u.Source, true, set.Time
			s.sources[u.Source] = source
		}
	}
	for _, named := range set.Named {
		key := podKey{named.Source, named.Object.UID}
		if p, ok := s.pods[key]; ok {
			p.ByName = named.ByName
			s.pods[key] = p
		}
	}
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

// load loads a snapshot.
func (s *state) load(snapshot *Set, base int64) {
	clear(s.pods)
	clear(s.sources)
	for i := range snapshot.Updates {
		for _, p := range snapshot.Updates[i].Pods {
			s.pods[podKey{p.Source, p.Object.UID}] = p
		}
	}
	for _, source := range snapshot.Sources {
		s.sources[source.Name] = source
	}
	s.revision = base
}

// tooLarge returns the pods of which only the names were stored.
func (s *state) tooLarge() []Pod {
	var found []Pod
	for _, p := range s.pods {
		if p.TooLarge {
			found = append(found, p)
		}
	}
	return sortPods(found)
}

// dropTooLarge drops the pods of which only the names were stored. Their sources have to deliver
// everything again.
func (s *state) dropTooLarge() {
	for _, p := range s.tooLarge() {
		delete(s.pods, podKey{p.Source, p.Object.UID})
		source := s.sources[p.Source]
		source.Attributes = nil
		s.sources[p.Source] = source
	}
}

// sorted returns the pods by source, namespace, name and UID.
func (s *state) sorted() []Pod {
	return sortPods(slices.Collect(maps.Values(s.pods)))
}

func sortPods(pods []Pod) []Pod {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Object.Namespace, b.Object.Namespace),
			strings.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Object.UID, b.Object.UID))
	})
	return pods
}
