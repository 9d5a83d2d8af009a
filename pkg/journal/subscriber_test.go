package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Closing a subscriber twice does not affect another one that requests the same.
func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(Options{})
		ops := Operations{config.PLEG: true}
		closed, open := j.Subscribe("", ops, Client{}), j.Subscribe("", ops, Client{})
		defer open.Close()
		closed.Close()
		closed.Close()
		time.Sleep(linger) //nolint:forbidigo // virtual time
		before := j.Revision()
		j.RecordEvent(pod("a"), &v1alpha1.Event{PodUID: "a"})
		if j.Revision() == before {
			t.Error("an event that a subscriber asks for is not recorded")
		}
	})
}

// The lag is the number of updates to read, even if revisions were skipped.
func TestLag(t *testing.T) {
	j := newJournal(Options{})
	lag := func() int64 { return j.Status().Subscribers[0].Lag }
	s := j.Subscribe("", nil, Client{})
	defer s.Close()
	appendSet(j, update(config.ADD, "a", "b"))
	if got := lag(); got != 3 {
		t.Errorf("lag %d after an update of two pods and a bookmark", got)
	}
	s.MoveTo(j.Revision())
	j.RecordEvent(pod("a"), &v1alpha1.Event{PodUID: "a"}) // not recorded
	before := j.Revision()
	asks := j.Subscribe("", Operations{config.PLEG: true}, Client{})
	defer asks.Close()
	if j.Revision() == before {
		t.Fatal("the subscriber that asks begins before the recording")
	}
	for _, s := range j.Status().Subscribers {
		if s.Lag != 0 {
			t.Errorf("subscriber %d, which has everything, lags by %d", s.ID, s.Lag)
		}
	}
}
