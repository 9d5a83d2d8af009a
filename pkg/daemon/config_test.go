package daemon

import (
	"slices"
	"testing"
)

// Headers whose names differ in case give the same configuration at each reload.
func TestHeadersThatDifferInCase(t *testing.T) {
	for range 50 {
		if got := toHeader(map[string][]string{"a": {"1"}, "A": {"2"}, "b": {"3"}}); !slices.Equal(got["A"], []string{"2", "1"}) {
			t.Fatalf("got %v", got)
		}
	}
}
