package testutil

import "testing"

// Exhaustive skips a test with the race detector, with which it takes six times as long. "make test"
// runs the packages whose tests call it without the race detector, too. Use it for tests that try
// very many cases, if a test beside it shows the races.
func Exhaustive(tb testing.TB) {
	tb.Helper()
	if Race {
		tb.Skip("exhaustive: runs without the race detector")
	}
}

// Stride returns 1, or n with the race detector: such a test tries each of its cases without the race
// detector, and one of n with it. "make test" runs the packages whose tests call it both ways.
func Stride(n int) int {
	if Race {
		return n
	}
	return 1
}
