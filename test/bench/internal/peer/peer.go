// Package peer is what the benchmarks and their programs have in common: a clock, and
// what there is to say of an update.
package peer

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"
)

// VersionAnnotation is the annotation that tells the versions of a manifest apart.
const VersionAnnotation = "bench.podconfigd.dev/version"

const (
	// LongestLine bounds a line of podconfigd's stream: a frame carries about 1 MiB of
	// pods as protobuf, and the JSON of these is less than twice that.
	LongestLine = 2 << 20
	// headerLength is within what a line's fields before its pods take.
	headerLength = 256
)

// Event is an update as it came out of a peer, without its pods.
type Event struct {
	Op string `json:"op"`
	// At is when it was there, Started when the peer began.
	At      time.Duration `json:"at"`
	Started time.Duration `json:"started"`
	// Pods is how many it has, Version the version annotation of the first of them.
	Pods    int    `json:"pods"`
	Version string `json:"version"`
	// Ready: with this event all that there was at the start has been told.
	Ready bool `json:"ready"`
}

// Now is the time since some fixed moment, the same for all processes of a machine.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel does not know its own clock
	}
	return time.Duration(now.Nano())
}

// Glance reads off a line's bytes what the benchmarks want to know: to decode it
// would take longer than what they measure.
func Glance(line []byte) Event {
	header := line[:min(len(line), headerLength)]
	return Event{
		Op:      string(between(header, `"op":"`, '"')),
		Pods:    bytes.Count(line, []byte(`"kind":"Pod"`)),
		Version: string(between(line, `"`+VersionAnnotation+`":"`, '"')),
		Ready:   bytes.Contains(header, []byte(`"ready":true`)),
	}
}

// between returns what stands between the first prefix and the delimiter after it.
func between(line []byte, prefix string, delimiter byte) []byte {
	at := bytes.Index(line, []byte(prefix))
	if at < 0 {
		return nil
	}
	value, _, _ := bytes.Cut(line[at+len(prefix):], []byte{delimiter})
	return value
}
