// Package bench measures podconfigd as users run it: the real binary, a real directory
// and real subscribers on its socket. If the kubelet has the same function, its own code
// runs in the same benchmark, as peer=kubelet.
//
// It is its own module, so that podconfigd does not get the dependencies of the peers.
// "make bench" runs it, and so does "go test -bench ." in its folder. docs/explanation/performance.md
// has the figures and their conditions. No test here fails because something took long.
//
// The times include the whole path between processes, and so other work on the machine. B/op and
// allocs/op, if printed, are of the benchmark's own process, not of the measured process.
package bench
