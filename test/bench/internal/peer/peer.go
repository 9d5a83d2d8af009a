// Package peer is what the benchmarks and the processes that they measure have in
// common: a clock, and the lines that kubelet-source writes.
package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// VersionAnnotation is the annotation that tells the versions of a manifest apart.
const VersionAnnotation = "bench.podconfigd.dev/version"

// Event is one line of kubelet-source: an update that it took from the kubelet's
// channel.
type Event struct {
	Op string `json:"op"`
	// At is when the update was taken, Started when the source was made.
	At      time.Duration `json:"at"`
	Started time.Duration `json:"started"`
	Pods    int           `json:"pods"`
	// Version is the version annotation of the last of the pods.
	Version string `json:"version"`
}

// Now is the time since some fixed moment, the same for all processes of a machine.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel does not know its own clock
	}
	return time.Duration(now.Nano())
}
