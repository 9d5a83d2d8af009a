package testutil

import "testing"

// Long skips a test that "make test" leaves to "make test-all": it takes long, or is not the shortest real way of its kind.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("long: make test-all runs it")
	}
}
