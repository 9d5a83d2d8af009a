package view

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// delays returns the number of observations of a histogram of the source "file", and their sum.
func delays(t *testing.T, registry *prometheus.Registry, name string) (count uint64, sum time.Duration) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			h := family.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), time.Duration(h.GetSampleSum() * float64(time.Second)).Round(time.Millisecond)
		}
	}
	return 0, 0
}

// The delay of an update counts from its event until it is written to each subscriber that was
// there. What a subscriber gets of the time before it came, and what has no event, has no delay.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		j := newJournal(journal.Options{Registerer: registry})
		next := func(c *testCursor) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			for {
				if _, err := c.Next(ctx); err != nil {
					return
				}
			}
		}
		happen := func(content string) {
			u := update(config.ADD, content)
			u.Event.Time = time.Now()
			<-time.After(10 * time.Millisecond) // until it is read and merged
			j.Append(u)
		}
		first, second := j.watch(StreamOptions{}), j.watch(StreamOptions{})
		defer first.Close()
		defer second.Close()
		other := j.watch(StreamOptions{Options: Options{Selector: Selector{Namespace: "other"}}})
		defer other.Close()
		happen("a")
		j.Append(update(config.UPDATE, "a=2")) // without an event
		<-time.After(time.Hour)
		resumed := j.watch(StreamOptions{Since: new(j.first)})
		defer resumed.Close()
		next(resumed)
		if n, sum := delays(t, registry, "podconfigd_journal_update_delay_seconds"); n != 1 || sum != 10*time.Millisecond {
			t.Errorf("to the journal: %d of %v", n, sum)
		}
		if n, _ := delays(t, registry, "podconfigd_journal_delivery_delay_seconds"); n != 0 {
			t.Errorf("what was there before a subscriber counts: %d", n)
		}
		next(first)
		next(other)
		if n, sum := delays(t, registry, "podconfigd_journal_delivery_delay_seconds"); n != 1 || sum.Round(time.Second) != time.Hour {
			t.Errorf("to a subscriber: %d of %v", n, sum)
		}
		happen("b")
		next(first)
		next(second)
		next(resumed)
		if n, _ := delays(t, registry, "podconfigd_journal_delivery_delay_seconds"); n != 5 {
			t.Errorf("to all subscribers: %d", n)
		}
	})
}

// A source that is removed takes its delays along, also if a subscriber is late.
func TestDelaysEndWithTheSource(t *testing.T) {
	registry := prometheus.NewRegistry()
	j := newJournal(journal.Options{Registerer: registry})
	c := j.watch(StreamOptions{})
	defer c.Close()
	u := update(config.ADD, "a")
	u.Event.Time = time.Now()
	j.Append(u)
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.HandleSourceChange(t.Context(), config.PodUpdate{Op: config.REMOVE, Source: "file", Change: config.SourceRemoved})
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"podconfigd_journal_update_delay_seconds", "podconfigd_journal_delivery_delay_seconds"} {
		if n, _ := delays(t, registry, name); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
