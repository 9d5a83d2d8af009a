package view

import (
	"fmt"
	"runtime/debug"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// counting is a selector of everything that counts its calls.
type counting struct {
	labels.Selector
	matches *int
}

func (counting) Empty() bool    { return false }
func (counting) String() string { return "counting" }
func (c counting) Matches(labels.Labels) bool {
	*c.matches++
	return true
}

// The frames of a large set are computed once per subscriber, even if the set does not
// cache them, because the subscriber resumes in the middle of it or the set is not new.
func TestALargeSetIsReadOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would cause it to be computed again
	j := newJournal(journal.Options{})
	before := j.Revision()
	large := update(config.ADD)
	const pods = 5000
	for i := range pods {
		large.Pods = append(large.Pods, pod(fmt.Sprintf("p%d=0", i)))
	}
	appendSet(j, large)
	for i := range 100 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("p%d=1", i)))
	}
	for name, begin := range map[string]func(Options) *Cursor{
		"in its middle": func(o Options) *Cursor {
			return Names(j.Journal, NamesOptions{Options: o, Since: new(before + 1)})
		},
		"long after": func(o Options) *Cursor {
			return Stream(j.Journal, StreamOptions{Options: o, Since: &before})
		},
		"of everything": func(o Options) *Cursor {
			return Stream(j.Journal, StreamOptions{Options: o, Since: &before, Mode: SnapshotMode})
		},
	} {
		t.Run(name, func(t *testing.T) {
			matches := 0
			c := begin(Options{Selector: Selector{Labels: counting{matches: &matches}}})
			for seen := 0; seen < pods-1; {
				frames, err := c.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					seen += len(f.Pods)
				}
			}
			c.Close()
			if matches > 3*pods {
				t.Errorf("%s: %d pods are matched %d times", name, pods, matches)
			}
		})
	}
}
