package testutil

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It bounds how long a test hangs,
// and says nothing of how long anything may take: a machine may be slow and have other
// work to do.
const Patience = 2 * time.Minute

// pollPeriod is the time between two looks at a condition.
const pollPeriod = 10 * time.Millisecond

// Until waits until the condition holds.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(Patience); !holds(); {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", Patience, what)
		}
		<-time.After(pollPeriod)
	}
}

// Eventually waits until there is no error any more.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	var err error
	deadline := time.Now().Add(Patience)
	for err = check(); err != nil; err = check() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %v", Patience, err)
		}
		<-time.After(pollPeriod)
	}
}

// Within holds that something takes no longer than a limit. do returns how long it took.
// On a machine that has other work to do, it may take some attempts to be that fast; what
// is never that fast fails the test.
func Within(tb testing.TB, limit time.Duration, what string, do func() (took time.Duration)) {
	tb.Helper()
	const attempts = 10
	var took time.Duration
	for range attempts {
		if took = do(); took <= limit {
			return
		}
		tb.Logf("%s took %v, more than %v", what, took, limit)
	}
	tb.Errorf("%s took %v at the last of %d attempts, want %v or less", what, took, attempts, limit)
}
