// Package recovered makes what a journal is restored from, for tests.
package recovered

import (
	"iter"
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
	revision, sources := int64(ahead), make(map[string]journal.Source)
	var stored []*journal.Pod
	for _, source := range slices.Sorted(maps.Keys(pods)) {
		sources[source] = journal.Source{Name: source, Seen: true}
		for _, object := range pods[source] {
			revision++
			stored = append(stored, journal.NewStored(source, object, nil, revision, nil))
		}
	}
	base := journal.NewTable(revision, versions(slices.Values(stored)), sources)
	return &journal.Recovered{Instance: "restored", Base: base, Revision: revision, Reserved: revision - 1, Resumed: true}
}

// Table returns the state with these pods, without a source.
func Table(revision int64, pods iter.Seq[*journal.Pod]) *journal.Table {
	return journal.NewTable(revision, versions(pods), nil)
}

// versions has the pods with 0, as the names have the revisions of the pods.
func versions(pods iter.Seq[*journal.Pod]) iter.Seq2[*journal.Pod, int64] {
	return func(yield func(*journal.Pod, int64) bool) {
		for p := range pods {
			if !yield(p, 0) {
				return
			}
		}
	}
}
