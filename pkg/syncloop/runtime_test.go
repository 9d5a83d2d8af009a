package syncloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

func (h *harness) expect(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff(want, h.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.calls = nil
}

func TestOrphansAreSentWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file", "api")
		h.send(config.ADD, "file", "a")
		h.events.has("a", "b", "c")
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD a") // a source that was not seen may have them
		h.send(config.ADD, "api", "b")
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD b", "orphans c")
		h.send(config.REMOVE, "api", "b")
		pass(3 * housekeepingPeriod)
		h.expect(t, "removes REMOVE b", "orphans b c")
		h.events.has("a", "c")
		pass(3 * housekeepingPeriod)
		h.expect(t, "orphans c")
		h.events.has("a")
		pass(3 * housekeepingPeriod)
		h.expect(t, "orphans")
		h.stop(t)
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		h.send(config.ADD, "file", "a")
		resync := func(want time.Duration) {
			t.Helper()
			err := h.loop.Resync(t.Context(), "default", "a")
			soon, ok := errors.AsType[*TooSoonError](err)
			switch {
			case want == 0 && err != nil,
				want > 0 && (!ok || soon.Wait != want || !strings.HasSuffix(err.Error(), fmt.Sprintf(" try again in %v", want))):
				t.Errorf("resync: %v, want to wait for %v", err, want)
			}
		}
		// The wait doubles with each request that comes as soon as it is allowed.
		for wait := resyncs.Duration; wait < resyncs.Cap; wait *= 2 {
			resync(0)
			resync(wait)
			pass(wait / 2)
			resync(wait / 2)
			pass(wait / 2)
		}
		for range 3 {
			resync(0)
			resync(resyncs.Cap)
			pass(resyncs.Cap)
		}
		pass(resyncs.Cap + 1) // after a pause, the wait starts again
		resync(0)
		resync(resyncs.Duration)
		if err := h.loop.Resync(t.Context(), "default", "b"); !errors.Is(err, ErrNoPod) || err.Error() != "resyncing pod default/b: no such pod" {
			t.Errorf("a pod that is not there: %v", err)
		}
		pass(3 * resyncs.Duration)
		h.stop(t)
		if n := len(h.syncs["a"]); n < 10 {
			t.Errorf("a was offered %d times", n)
		}
		if n := len(h.loop.backoff); n > 0 {
			t.Errorf("%d waits are kept", n)
		}
	})
}

// After a resync, the pod is not due for a period.
func TestResyncPutsOffTheTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		h.send(config.ADD, "file", "a")
		for range 10 {
			pass(DefaultSyncFrequency - time.Second)
			if err := h.loop.Resync(t.Context(), "default", "a"); err != nil {
				t.Fatal(err)
			}
		}
		h.stop(t)
		if n := len(h.syncs["a"]); n != 10 {
			t.Errorf("a was offered %d times", n)
		}
	})
}

// Fifty pods that are added together are not due together.
func TestSyncsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		names := make([]string, 50)
		for i := range names {
			names[i] = string(rune('A' + i))
		}
		h.send(config.ADD, "file", names...)
		pass(2 * DefaultSyncFrequency)
		h.stop(t)
		at := make(map[time.Time]int)
		for _, name := range names {
			at[h.syncs[types.UID(name)][0]]++
		}
		most := 0
		for _, n := range at {
			most = max(most, n)
		}
		if most > 15 {
			t.Errorf("%d of 50 pods had their turn at one moment", most)
		}
	})
}

func TestResyncEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		h.stop(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.loop.Resync(ctx, "default", "a") }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a loop that has ended answers %v", err)
		}
	})
}
