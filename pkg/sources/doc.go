// Package sources declares the interface of a source of pods. Each source is a package
// below this one.
//
// A [Source] reads pods from one place. Each time these pods change, it sends the full
// set on its channel, which is
// [github.com/podconfigd/podconfigd/pkg/config.PodConfig.Channel] of its name. The
// comment of [Source] has its rules.
//
// # How to write a source
//
// Package [github.com/podconfigd/podconfigd/pkg/sources/sourcetest] tests these rules. A
// new source needs:
//
//  1. A package below this one with a Source, its Options, New and Run. Run is one goroutine
//     that owns the state and selects on every change. A [Board] has the status.
//  2. A contract_test.go that passes sourcetest.Run a real place, which the test can change,
//     break and repair, and tests of the source's own behavior.
//  3. A name in package config, so that ParseSource accepts it; an entry in
//     Config.specs and opener.open of pkg/daemon; options in api/config; a member of
//     SourceStatus in api/stream.
//  4. A row in docs/explanation/architecture.md. If the kubelet has such a source, also a row for each
//     difference in docs/explanation/kubelet-differences.md.
//
// No other part of the daemon changes: the Mux has a channel for each name, and the node
// is ready after each source has sent a set.
package sources
