//go:build linux

package footprint

import (
	"runtime/debug"
	"testing"
)

// The start collects often, and the rest of the run as before, unless the environment says how often.
func TestCollectOften(t *testing.T) {
	const before = 123
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	percent := func() int {
		now := debug.SetGCPercent(before)
		debug.SetGCPercent(now)
		return now
	}
	for env, want := range map[string]int{"": startPercent, "200": before} {
		t.Setenv("GOGC", env)
		restore := collectOften()
		if got := percent(); got != want {
			t.Errorf("GOGC=%s: %d, want %d", env, got, want)
		}
		if restore(); percent() != before {
			t.Errorf("GOGC=%s: %d after the start", env, percent())
		}
	}
}
