// Package peer is what the benchmarks and kubelet-source have in common: a clock, and
// what there is to say of an update.
package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// VersionAnnotation is the annotation that tells the versions of a manifest apart.
const VersionAnnotation = "bench.podconfigd.dev/version"

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
