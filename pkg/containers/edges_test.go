package containers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// A subscriber resumes from as many changes as the ring has, however many more it keeps for a while.
func TestEdgesOfTheRing(t *testing.T) {
	for _, filled := range []int{0, 100} {
		t.Run(fmt.Sprint(filled), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.watch(nil, WatchOptions{}).read()
				n := 0
				change := func(changes int) {
					for range changes {
						n++
						w.set(fmt.Sprint("a/x ", []string{"created", "exited"}[n%2]))
					}
				}
				change(filled + 1)
				at := w.watch(nil, WatchOptions{})
				at.read()
				change(maxChanges)
				resumed := w.watch(nil, at.since())
				resumed.held["a-x"] = ""
				if lines := resumed.read(); len(lines) != maxChanges {
					t.Errorf("%d lines", len(lines))
				}
				change(1)
				if lines := w.watch(nil, at.since()).read(); !strings.HasPrefix(lines[0], "BOOKMARK reset: the changes after") {
					t.Errorf("%q", lines[0])
				}
			})
		})
	}
}

// More changes than milliseconds have passed: the revisions of the next instance are larger.
func TestRevisionsOfTheNextInstance(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{})
		s.read()
		for i := range 1000 {
			w.set(fmt.Sprint("a/x ", []string{"created", "exited"}[i%2]))
		}
		s.read()
		last := s.revision
		w.stream.Restart()
		synctest.Wait()
		if s.read(); s.revision <= last {
			t.Errorf("revision %d after %d", s.revision, last)
		}
	})
}

// The mirror pod of a static pod that no source has comes after its container.
func TestALateMirrorPod(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{})
		w.set("web/app created")
		s.expect("ADD - web/app created; BOOKMARK complete")
		mirror := pod("web", podtest.UID("mirror"), podtest.Annotation("kubernetes.io/config.mirror", "web"))
		w.deliver(config.ADD, "api", mirror)
		s.expect("UPDATE api web/app created")
	})
}

// A container is removed while its pod comes. Who did not see it does not get it any more.
func TestAPodThatComesWithTheRemoval(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{Selector: view.Selector{Source: "api"}})
		w.set("web/app created")
		s.expect("BOOKMARK complete")
		w.late = pod("web")
		w.set("web/app removed")
		s.expect("")
	})
}
