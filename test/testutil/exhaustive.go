package testutil

import "testing"

// Exhaustive skips a test that runs with the race detector, because it takes six times as long then.
// "make test" runs the packages whose tests call Exhaustive also without the race detector. Use it
// for tests that try very many cases, if a test beside it shows the races.
func Exhaustive(tb testing.TB) {
	tb.Helper()
	if Race {
		tb.Skip("exhaustive: runs without the race detector")
	}
}

// Stride returns n with the race detector, and 1 without it. A test that calls Stride tries one of n
// cases with the race detector, and all cases without it. "make test" runs the packages of such tests
// both ways.
func Stride(n int) int {
	if Race {
		return n
	}
	return 1
}
