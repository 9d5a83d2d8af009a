// Package peer is shared by the benchmarks and their programs: a clock, and the
// properties of an update.
package peer

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"
)

// VersionAnnotation is the annotation with the version of a manifest.
const VersionAnnotation = "bench.podconfigd.dev/version"

const (
	// LongestLine is more than the length of a line in podconfigd's stream.
	LongestLine = 2 << 20
	// headerLength is more than the length of a line's fields before its pods.
	headerLength = 256
)

// Event is an update of a peer, without its pods.
type Event struct {
	Op string `json:"op"`
	// At is the time at which it arrived, Started the start of the peer.
	At      time.Duration `json:"at"`
	Started time.Duration `json:"started"`
	// Pods is the number of its pods, Version the version annotation of the first.
	Pods    int    `json:"pods"`
	Version string `json:"version"`
	// Ready means that with this event everything from the start has arrived.
	Ready bool `json:"ready"`
}

// Now returns the time since a fixed moment, which is the same for all processes of a
// machine.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel does not have its own clock
	}
	return time.Duration(now.Nano())
}

// Glance parses the fields of a line that the benchmarks need. Decoding the line would
// take longer than the measured operation.
func Glance(line []byte) Event {
	header := line[:min(len(line), headerLength)]
	return Event{
		Op:      string(between(header, `"op":"`, '"')),
		Pods:    bytes.Count(line, []byte(`"kind":"Pod"`)),
		Version: string(between(line, `"`+VersionAnnotation+`":"`, '"')),
		Ready:   bytes.Contains(header, []byte(`"ready":true`)),
	}
}

// between returns the bytes between the first prefix and the next delimiter.
func between(line []byte, prefix string, delimiter byte) []byte {
	at := bytes.Index(line, []byte(prefix))
	if at < 0 {
		return nil
	}
	value, _, _ := bytes.Cut(line[at+len(prefix):], []byte{delimiter})
	return value
}
