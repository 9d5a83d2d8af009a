package view

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A subscriber that selects only a part of a set gets a bookmark before the set leaves
// the ring.
func TestProgressAfterAPartOfASet(t *testing.T) {
	ones := Options{Selector: Selector{Labels: mustLabels("image=1")}}
	for name, open := range map[string]func(j *testJournal, since *int64) *Cursor{
		"stream": openStream(StreamOptions{Options: ones}), "names": openNames(ones),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal(journal.Options{MaxBytes: 1})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- j.Run(ctx) }()
				appendSet(j, update(config.ADD, "a=1", "b=2"))
				c := open(j, nil)
				defer c.Close()
				var since int64
				read := func() {
					frames, err := drain(c)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range frames {
						since = max(since, f.Revision)
						for _, revision := range f.Revisions {
							since = max(since, revision)
						}
					}
				}
				read()
				appendSet(j, update(config.REMOVE, "a"), update(config.UPDATE, "b=3"))
				for range 30 {
					read()
					time.Sleep(time.Second) //nolint:forbidigo // virtual time
					synctest.Wait()
				}
				if compacted := j.Status().Compacted; compacted != j.Revision() || since != compacted {
					t.Errorf("it resumes from %d, up to %d is compacted, the newest is %d", since-j.first, compacted-j.first, j.Revision()-j.first)
				}
				cancel()
				<-done
			})
		})
	}
}

// A subscription by name that can't start has an error with the reason.
func TestNamesCannotResume(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 1})
	appendSet(j, update(config.ADD, "a"))
	appendSet(j, update(config.ADD, "b"))
	for want, since := range map[string]int64{"is unknown": j.Revision() + 1, "is compacted": j.first} {
		t.Run(want, func(t *testing.T) {
			c := Names(j.Journal, NamesOptions{Since: &since})
			defer c.Close()
			if _, err := c.Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("since %d: %v, want %q in it", since-j.first, err, want)
			}
		})
	}
}
