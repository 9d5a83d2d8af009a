package config

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Each update has the event of its set. A set that was held has none: how long it was held is no
// delay.
func TestEventsTravelWithTheirSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPodConfig()
		limit, err := ParseRemovalLimit("1")
		if err != nil {
			t.Fatal(err)
		}
		c.LimitRemovals(limit, nil)
		sets := c.Channel("file")
		go func() { _ = c.Run(t.Context()) }()
		a, b := pod("a", "a"), pod("b", "b")
		at := time.Now()
		send := func(pods ...*v1.Pod) { sets <- SourceSet{Pods: pods, Event: Event{Time: at}} }
		send(a, b)
		if u := <-c.Updates(); !u.Event.Time.Equal(at) {
			t.Errorf("the event is %+v", u.Event)
		}
		send(a, b)
		synctest.Wait()
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
