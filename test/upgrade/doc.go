// Package upgrade compares podconfigd with an earlier version of itself.
//
// What the earlier version printed, answered and stored is recorded in testdata. This version must
// have its flags, take its configuration and its state directory, and its clients must read the
// recorded answers.
//
// With -earlier, as "make conformance" runs it, the test builds the earlier version, a commit of this
// repository, and runs both: each version's clients with the other's daemon, and both with one state
// directory, up and down. With -record too, it records the earlier version again:
//
//	go test ./test/upgrade -run Recorded -earlier -record
package upgrade
