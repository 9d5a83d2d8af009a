package store

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A machine has another name for a while. What was set aside then is used again when the name is back: the pods and the note, under
// a new instance.
func TestTheNameOfTheNodeComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		p.log.Remember("note")
		for range 100 { // several segments
			p.append(m.set())
		}
		<-time.After(3 * time.Second)
		pods := m.pods
		p.end()

		opts.Node = "localhost"
		var last int64
		for range 2 {
			q, other := start(t, opts)
			if len(final(other)) > 0 || other.Note != "" {
				t.Errorf("another node has the pods of this one: %d, and the note %q", len(final(other)), other.Note)
			}
			n := newModel(2, other)
			q.append(n.set())
			last = n.revision
			q.end()
		}

		opts.Node = "node"
		p, again := start(t, opts)
		if again.Instance == recovered.Instance || again.Resumed || again.Note != "note" || again.Revision <= max(m.revision, last) ||
			!strings.Contains(again.Reason, "another name") {
			t.Errorf("instance %s, resumed %t, note %q, revision %d, reason %s", again.Instance, again.Resumed, again.Note, again.Revision, again.Reason)
		}
		equal(t, "the pods", final(again), pods)
		m.begin(again)
		if c := p.append(m.set()); !c.Stored {
			t.Errorf("%+v", c)
		}
		p.end()
		p, third := start(t, opts) // as usual
		if third.Instance != again.Instance || !third.Resumed {
			t.Errorf("%+v", third.Reason)
		}
		equal(t, "the pods", final(third), m.pods)
		p.end()
	})
}
