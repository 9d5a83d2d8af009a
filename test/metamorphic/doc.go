// Package metamorphic drives the merge, the journal with its log, and the views by one generator, and
// compares them with a small model.
//
// A run is a sequence of random steps: a source delivers a set, the disk of the log fails or heals,
// the access rules change, the daemon stops or is killed and starts again, and subscribers of each
// view read, fall behind or are cut. Whatever the order of the steps, all subscribers that have read
// everything hold what the model says. The steps of a run depend only on its seed:
//
//	go test ./test/metamorphic -seed 17 -runs 1
package metamorphic
