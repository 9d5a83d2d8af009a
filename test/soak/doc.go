// Package soak runs subscribers of every protocol against the real binary over real
// sockets. In the meantime, the sources change at random, connections are cut at random
// bytes and the daemon is killed. Package history judges what the subscribers received.
// At the end, each must have the pods of the sources.
//
// With a state directory, subscribers resume after a kill: no reset is right, and no update
// that changes nothing.
//
// The changes and the cuts depend on the seed, which the test prints:
//
//	go test ./test/soak -run TestHistories -args -seed 7 -steps 5000 -kills 100
//
// TestPressed updates many pods as fast as the daemon takes it, and checks that what the
// daemon uses stays the same:
//
//	go test ./test/soak -run TestPressed -v -args -pods 5000 -press 25m
package soak
