// Package sources is where the sources of pods live: one package each, and this
// page on what they owe.
//
// A source knows one place that pods come from and sends the full set of those
// pods, each time it changes, on the channel that
// [github.com/podconfigd/podconfigd/pkg/config.PodConfig.Channel] gave for its
// name. It has one method that starts anything:
//
//	Run(ctx context.Context, sets chan<- config.SourceSet) error
//
// and keeps to these rules:
//
//   - The first set is sent as soon as it is known, also when it is empty: until
//     then the source is not ready, and neither is the node.
//   - Unavailable is not empty. A source that can't read sends nothing, keeps what
//     it sent last, and says in its status why and since when.
//   - Every send selects on the context too. Run returns within a second of the
//     context's end, and by then every goroutine that it started has ended.
//   - The channel is never closed.
//   - A pod that was sent belongs to everyone and is never written to again. A pod
//     that did not change is sent as the same pointer: that is what makes a set
//     cost what changed in it.
//   - The names of the pods in a set are distinct, and so are their UIDs; of two
//     that clash, the source keeps one by a rule of its own and reports the other.
//
// # Writing another
//
// Package [github.com/podconfigd/podconfigd/pkg/sources/sourcetest] has these rules
// as tests. A new source takes these steps:
//
//  1. A package below this one, with a Source, its Options, New and Run. Run is one
//     goroutine that owns the state and selects on whatever tells of changes; embed
//     a [Condition] in the Status, and say in it why nothing can be read.
//  2. A contract_test.go that gives sourcetest.Run a place: something real that the
//     test can change, break and mend. Then tests of what is the source's own.
//  3. A name in package config, whose ParseSource has readers ask for those only; an
//     entry in newSources of cmd/podconfigd, which gives it its channel; flags; a
//     member of SourceStatus in api/stream.
//  4. A row in docs/architecture.md and, where the kubelet has such a source, one for
//     each difference in docs/kubelet-differences.md.
//
// The daemon needs to know nothing else: the Mux has a channel for each name, and
// the node is ready once each has sent a set.
package sources
