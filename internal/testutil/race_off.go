//go:build !race

package testutil

// Race tells whether the test is built with the race detector.
const Race = false
