package view

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A subscriber that waits for its client, at any point, holds no version of a pod that
// has left the ring.
func TestASlowSubscriberHoldsNoPods(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 3})
	const pods = 500 // more than nine batches
	var versions []weak.Pointer[v1.Pod]
	change := func(op config.PodOperation, n int) {
		u := update(op)
		for i := range pods {
			p := pod(fmt.Sprintf("p%d=%d", i, n))
			p.Annotations["large"] = fmt.Sprintf("%0500d", n)
			versions = append(versions, weak.Make(p))
			u.Pods = append(u.Pods, p)
		}
		appendSet(j, u)
	}
	change(config.ADD, 0)
	var slow []*Cursor
	for i := range 40 {
		c := []func() *Cursor{
			func() *Cursor { return Stream(j.Journal, StreamOptions{}) },
			func() *Cursor { return Stream(j.Journal, StreamOptions{Mode: SnapshotMode}) },
			func() *Cursor { return Names(j.Journal, NamesOptions{}) },
			func() *Cursor { return UIDs(j.Journal, Options{}) },
		}[i%4]()
		t.Cleanup(c.Close)
		for range i / 4 { // one is stuck in the current pods, another in an update
			frames, err := c.Next(t.Context())
			if err != nil { // names, which fell behind
				break
			}
			clear(frames)
			if i%8 > 3 {
				change(config.UPDATE, i)
			}
		}
		slow = append(slow, c)
	}
	for n := range 10 {
		change(config.UPDATE, 100+n)
	}
	runtime.GC()
	runtime.GC()
	alive := 0
	for _, v := range versions {
		if v.Value() != nil {
			alive++
		}
	}
	if ring := 4 * pods; alive > ring {
		t.Errorf("%d versions are alive, of which the ring and the current state hold %d", alive, ring)
	}
	runtime.KeepAlive(slow)
	runtime.KeepAlive(j)
}
