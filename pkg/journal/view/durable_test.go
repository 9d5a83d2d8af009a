package view

import (
	"context"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// startDurable starts a journal on what the directory has. Its log runs until stop is
// called.
func startDurable(t *testing.T, dir string) (j *journal.Journal, stop func()) {
	t.Helper()
	log, recovered, err := store.Open(store.Options{Dir: dir, Node: "node", BootID: "boot-1"})
	if err != nil {
		t.Fatal(err)
	}
	j = journal.New(journal.Options{Sources: []string{"file"}, Store: log, Recovered: &recovered.Recovered})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- log.Run(ctx) }()
	return j, func() {
		cancel()
		<-done
	}
}

// After a restart, before any source delivers a set, a subscriber that requests operations
// that are not stored can resume from what it got.
func TestResumingFromRestoredState(t *testing.T) {
	for _, op := range []config.PodOperation{config.SYNC, config.PLEG, config.HOUSEKEEPING} {
		t.Run(op.String(), func(t *testing.T) {
			dir := t.TempDir()
			j, stop := startDurable(t, dir)
			c := Stream(j, StreamOptions{})
			appendSet(&testJournal{Journal: j}, update(config.ADD, "a"))
			for added := false; !added; {
				added = sees(t, c, config.ADD)
			}
			c.Close()
			stop()

			j, stop = startDurable(t, dir)
			defer stop()
			ops := journal.Operations{config.ADD: true, op: true}
			c = Stream(j, StreamOptions{Ops: ops})
			var last int64
			for last == 0 {
				frames, err := c.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					if f.InitialSyncComplete {
						last = f.Revision
					}
				}
			}
			c.Close()
			if err := j.Resumable(j.Instance(), last, ops); err != nil {
				t.Error(err)
			}
		})
	}
}

func sees(t *testing.T, c *Cursor, op config.PodOperation) (seen bool) {
	t.Helper()
	frames, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		seen = seen || f.Op == op
	}
	return seen
}
