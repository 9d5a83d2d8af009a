package testutil

import (
	"testing"
	"time"
)

// Patience is the longest wait of a test. It limits how long a test hangs. It does not mean that
// anything may take that long. A machine may be slow and busy.
const Patience = 5 * time.Minute

// pollPeriod is the time between two checks of a condition.
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

// Eventually waits until check returns no error.
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

// Within fails if something takes longer than a limit. do returns how long it took. On a
// busy machine, it may need several attempts to be fast enough. If none is, the test
// fails.
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
