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

import (
	"bytes"
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Source reads the pods of one place. Its constructor only allocates. Run is called at
// most once.
//
// In the life of a source:
//  1. The constructor gets what was [Restored].
//  2. Run sends the first set when it is known.
//  3. Run sends a set at each change of the pods. Status is read at any time.
//  4. The context ends, and Run returns.
//  5. If the source is a [Predecessor], its successor gets the last set.
//
// These rules apply:
//
//   - Run sends the full set of pods on sets: first as soon as the set is known, even if it is
//     empty, then each time it changes. Until the first set, neither the source nor the node is
//     ready.
//   - Unavailable is not empty. A source that can't read sends nothing and keeps its last set.
//     Its status has the reason and the time.
//   - Every send also selects on the context. Run returns the context's cause within a second
//     of the context's end. By then, every goroutine that it started has ended. The exception is a
//     goroutine that a system call blocks. It sends nothing any more.
//   - Run never closes sets.
//   - A pod is shared and read-only after it was sent. A pod that did not change is sent as the
//     same pointer, so the cost of a set depends on the changes.
//   - A set names its origin, without secrets.
//   - After a restart, [Restored] counts as the source's last set. Unavailable is not empty then
//     either, and a pod that is held is the restored pointer.
//   - Names and UIDs of the pods in a set are distinct. If two pods conflict, the source
//     chooses one by its own rule and reports the other.
type Source interface {
	Run(ctx context.Context, sets chan<- config.SourceSet) error
	// Status returns the status of the source. Any goroutine can call it at any time.
	// Seen and Pods are zero: the merge has them.
	Status() v1alpha1.SourceStatus
}

// Predecessor is a source that can hand its last set to its successor, as after a restart. A source gets a successor
// while the daemon runs, for example because its configuration changed.
type Predecessor interface {
	// Last returns the last set of the source. It is called after Run has returned.
	Last() Restored
}

// Restored is the last set of a source before a restart. The pods have the annotations of
// the merge. Until the source sends its first set, these pods count. A source that holds
// one of them, for example because its manifest is bad now, sends the same pointer.
type Restored struct {
	Pods []*v1.Pod
	// Files has the manifest file of each pod, by UID, if the pods are from files.
	Files map[types.UID]*config.File
	// Attributes are the attributes of the set.
	Attributes map[string]string
}

// ReasonDuplicate is the reason of a manifest that is shadowed. Package manifest and
// each source have further reasons.
const ReasonDuplicate = "Duplicate"

// ReasonCopy is the reason of a manifest that is accepted, although its name looks like a copy of another file.
const ReasonCopy = "LooksLikeCopy"

const (
	// linesAround is the number of lines that are kept before and after a fault, and maxLine the
	// length of a line in bytes. So a fault keeps 1.4 KiB.
	linesAround = 3
	maxLine     = 200
)

// FaultLines returns the lines of a manifest around a line, or nil if it does not have that line.
func FaultLines(data []byte, line int) *v1alpha1.ManifestFault {
	if line <= 0 {
		return nil
	}
	found := &v1alpha1.ManifestFault{Line: line, FirstLine: max(1, line-linesAround)}
	number := 0
	for text := range bytes.Lines(data) {
		if number++; number > line+linesAround {
			break
		}
		if number < found.FirstLine {
			continue
		}
		text = bytes.TrimRight(text, "\r\n")
		end := ""
		if len(text) > maxLine {
			text, end = text[:maxLine], "…"
		}
		found.Lines = append(found.Lines, strings.ToValidUTF8(string(text), "\uFFFD")+end) // a copy: data can be large
	}
	if number < line {
		return nil
	}
	return found
}
