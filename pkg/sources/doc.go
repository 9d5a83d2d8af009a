// Package sources declares what a source of pods is. Each source is a package below
// this one.
//
// A [Source] knows one place that pods come from. It sends the full set of those pods
// each time it changes, on the channel that
// [github.com/podconfigd/podconfigd/pkg/config.PodConfig.Channel] gave for its name.
// The rules that it keeps are the comment of [Source].
//
// # Writing another
//
// Package [github.com/podconfigd/podconfigd/pkg/sources/sourcetest] has these rules
// as tests. A new source takes these steps:
//
//  1. A package below this one, with a Source, its Options, New and Run. Run is one
//     goroutine that owns the state and selects on every change. A [Board] holds the
//     status.
//  2. A contract_test.go that gives sourcetest.Run a place: something real that the
//     test can change, break and mend. Then tests of what is the source's own.
//  3. A name in package config, so that ParseSource accepts it; an entry in newSources of
//     pkg/daemon, which gives it its channel; fields of daemon.Config and flags; a
//     member of SourceStatus in api/stream.
//  4. A row in docs/architecture.md and, where the kubelet has such a source, one for
//     each difference in docs/kubelet-differences.md.
//
// The daemon needs to know nothing else: the Mux has a channel for each name, and
// the node is ready once each has sent a set.
package sources
