package config

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// traced counts traces.
type traced struct{ sets, merged int }

func (t *traced) Trace(string, Event) Trace       { t.sets++; return tracedSet{of: t} }
func (s tracedSet) Merged(time.Time, []PodUpdate) { s.of.merged++ }

type tracedSet struct {
	Trace

	of *traced
}

// Each update has the event of its set. A set that was held has none: how long it was held is no
// delay. A set that changes nothing has no trace.
func TestEventsTravelWithTheirSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tracer := NewPodConfig(), &traced{}
		limit, err := ParseRemovalLimit("1")
		if err != nil {
			t.Fatal(err)
		}
		c.LimitRemovals(limit)
		c.SetTracer(tracer)
		sets := c.Channel("file")
		go func() { _ = c.Run(t.Context()) }()
		a, b := pod("a", "a"), pod("b", "b")
		at := time.Now()
		send := func(pods ...*v1.Pod) { sets <- SourceSet{Pods: pods, Event: Event{Time: at}} }
		send(a, b)
		if u := <-c.Updates(); !u.Event.Time.Equal(at) || u.Event.Trace == nil {
			t.Errorf("the event is %+v", u.Event)
		}
		send(a, b)
		synctest.Wait()
		if tracer.sets != 1 || tracer.merged != 1 {
			t.Errorf("%d sets are traced, %d of them merged", tracer.sets, tracer.merged)
		}
		send()
		synctest.Wait()
		if _, held := c.Held("file"); !held {
			t.Fatal("the set is not held")
		}
		if err := c.Release(t.Context(), "file", nil); err != nil {
			t.Fatal(err)
		}
		if u := <-c.Updates(); u.Op != REMOVE || u.Event != (Event{}) {
			t.Errorf("%s of the released set has the event %+v", u.Op, u.Event)
		}
	})
}
