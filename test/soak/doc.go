// Package soak has subscribers of every protocol follow the real binary over real sockets
// while its sources change at random, connections are cut at random bytes and the daemon is
// killed. Package history judges what they received, and at the end each must hold what the
// sources have.
//
// The changes and the cuts follow from the seed, which the test prints:
//
//	go test ./test/soak -run TestHistories -args -seed 7 -steps 5000 -kills 100
package soak
