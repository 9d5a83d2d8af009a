package owners

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// A subscriber that requests owners gets a pod again when more of its owners are known, and each pod once after a start.
func TestSubscribersOfOwners(t *testing.T) {
	inWorld(t, func(w *world) {
		watch := func(since *int64) *view.Cursor {
			return view.Stream(w.journal, view.StreamOptions{Owners: true, Since: since})
		}
		// expect compares what comes within a second, each once.
		expect := func(c *view.Cursor, want string) {
			w.t.Helper()
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second) // short: virtual time
			defer cancel()
			var shown []string
			for {
				frames, err := c.Next(ctx)
				if err != nil {
					break
				}
				for _, f := range frames {
					for uid, owners := range f.OwnersOfPods() {
						shown = append(shown, fmt.Sprintf("%v %s %d", f.Op, uid, len(owners)))
					}
				}
			}
			slices.Sort(shown)
			if got := strings.Join(slices.Compact(shown), ", "); got != want {
				w.t.Errorf("got %s, want %s", got, want)
			}
		}
		w.deployment("web", "web-1")
		c := watch(nil)
		expect(c, "")
		w.add("apps/v1 ReplicaSet web-1", "a", "b")
		w.add("", "bare")
		expect(c, "ADD a 1, ADD b 1, RECONCILE a 2, RECONCILE b 2")
		c.Close()

		// A pod that comes during the request is no exception.
		w.deployment("db", "db-1")
		during := false
		w.fault = func(string) error {
			if !during {
				during = true
				w.add("apps/v1 ReplicaSet db-1", "d")
			}
			return nil
		}
		revision := w.journal.Revision()
		c = watch(&revision)
		w.add("apps/v1 ReplicaSet db-1", "c")
		expect(c, "ADD c 1, ADD d 1, RECONCILE c 2, RECONCILE d 2")
		c.Close()

		revision = w.journal.Revision()
		w.stop()
		w.run()
		w.pass(time.Second)
		c = watch(&revision)
		expect(c, "RECONCILE a 2, RECONCILE b 2, RECONCILE c 2, RECONCILE d 2")
		c.Close()
	})
}
