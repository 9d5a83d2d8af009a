// Package recovered makes what a journal is restored from, for tests.
package recovered

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// ahead is later than the time in milliseconds, from which a journal takes its first revision.
const ahead = 1 << 50

// Of returns the state of an earlier run in which each source had these pods. The
// next revision follows without a gap.
func Of(pods map[string][]*v1.Pod) *store.Recovered {
	r := &store.Recovered{Instance: "restored", Resumed: true, Base: ahead, Sources: make(map[string]store.Source)}
	for _, source := range slices.Sorted(maps.Keys(pods)) {
		r.Sources[source] = store.Source{Name: source, Seen: true}
		for _, object := range pods[source] {
			r.Base++
			r.Pods = append(r.Pods, store.Pod{Source: source, Revision: r.Base, Object: object})
		}
	}
	r.Revision, r.Reserved = r.Base, r.Base-1
	return r
}
