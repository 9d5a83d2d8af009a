package view

import (
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A subscription by name that can't begin says why.
func TestNamesThatCannotBeResumed(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 1})
	appendSet(j, update(config.ADD, "a"))
	appendSet(j, update(config.ADD, "b"))
	for _, test := range []struct {
		since int64
		want  string
	}{
		{j.Revision() + 1, "is not one of this instance"},
		{j.first, "is compacted"},
	} {
		c := Names(j.Journal, NamesOptions{Since: &test.since})
		if _, err := c.Next(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("since %d: %v, want %q in it", test.since-j.first, err, test.want)
		}
		c.Close()
	}
}
