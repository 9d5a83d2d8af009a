// Package upgrade runs podconfigd together with an earlier version of itself: each version's clients
// with the other's daemon, and both with one state directory, up and down. The earlier version is a
// commit of this repository, which the test builds.
package upgrade
