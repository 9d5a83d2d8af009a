package daemon

import (
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// Headers whose names differ in case give the same configuration at each reload.
func TestHeadersThatDifferInCase(t *testing.T) {
	for range 50 {
		if got := toHeader(map[string][]string{"a": {"1"}, "A": {"2"}, "b": {"3"}}); !slices.Equal(got["A"], []string{"2", "1"}) {
			t.Fatalf("got %v", got)
		}
	}
}

// Each part that an option names takes changes.
func TestThePartsOfOptionsTakeChanges(t *testing.T) {
	parts := []string{sourcesPart, brakePart, plegPart, loopPart, eventsPart, accessPart, limitsPart, journalPart, statePart}
	for _, o := range v1alpha1.Options {
		if o.Reload != "" && !slices.Contains(parts, o.Reload) && o.Path != "logging.verbosity" {
			t.Errorf("%s: no part of the daemon has the name %q", o.Path, o.Reload)
		}
	}
}
