// Package recovered makes what a journal is restored from, for tests.
package recovered

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// ahead is a revision above the time in milliseconds, at which a new journal begins.
const ahead = 1 << 50

// Of returns the state of an earlier run in which each source had these pods. The
// next revision follows without a gap.
func Of(pods map[string][]*v1.Pod) *journal.Recovered {
	r := &journal.Recovered{Instance: "restored", Base: ahead, Sources: make(map[string]journal.Source)}
	for _, source := range slices.Sorted(maps.Keys(pods)) {
		r.Sources[source] = journal.Source{Name: source, Seen: true}
		for _, object := range pods[source] {
			r.Base++
			r.Pods = append(r.Pods, journal.NewStored(source, object, nil, r.Base, nil))
		}
	}
	r.Revision, r.Reserved = r.Base, r.Base-1
	return r
}
