//go:build race

package testutil

// Race is whether the test is built with the race detector.
const Race = true
