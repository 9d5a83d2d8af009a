package daemon

import (
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// Each part that an option names takes changes.
func TestThePartsOfOptionsTakeChanges(t *testing.T) {
	parts := []string{sourcesPart, brakePart, plegPart, loopPart, eventsPart, accessPart, limitsPart, journalPart, statePart, podsAPIPart}
	for _, o := range v1alpha1.Options {
		if o.Reload != "" && !slices.Contains(parts, o.Reload) && o.Path != "logging.verbosity" {
			t.Errorf("%s: no part of the daemon has the name %q", o.Path, o.Reload)
		}
	}
}
