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
package sources
