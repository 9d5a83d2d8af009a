package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkPodsAPIBurst changes pods without waiting, while 100 subscribers watch. The
// number of changes differs between the peers. It reports how many subscribers were
// dropped, how many end with the current state, and how much the heap of both ends grew.
func BenchmarkPodsAPIBurst(b *testing.B) {
	for _, s := range podsServers {
		updates := map[string]int{"podconfigd": 100_000, "kubelet": 2_000}[s.name]
		b.Run(fmt.Sprintf("updates=%d/peer=%s", updates, s.name), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := newPodsWatch(b, s.start, 100, true)
				before := heap()
				b.StartTimer()
				for range updates {
					w.next()
				}
				dropped, right := w.outcome()
				b.ReportMetric(float64(dropped), "dropped")
				b.ReportMetric(float64(right), "right")
				b.ReportMetric((heap()-before)/(1<<20), "heap-MiB")
			}
		})
	}
}

func heap() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// outcome waits until every subscriber has the current state or was dropped, and counts
// both.
func (w *podsWatch) outcome() (dropped, right int) {
	want := make(map[string]bool)
	for i := range min(w.made, len(w.pods)) {
		want[fmt.Sprint(w.made-1-i)] = true
	}
	deadline := time.After(patience)
	for {
		right = 0
		for _, held := range w.held {
			if held.has(want) {
				right++
			}
		}
		if right+dropped >= len(w.held) {
			return dropped, right
		}
		select {
		case <-w.news:
		case <-w.failures:
			dropped++
		case <-deadline:
			return dropped, right
		}
	}
}

// has reports whether exactly these versions are held.
func (h *heldVersions) has(want map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pods) != len(want) || h.err != nil {
		return false
	}
	for _, version := range h.pods {
		if !want[version] {
			return false
		}
	}
	return true
}

// TestPodsAPIBurst checks that no subscriber is dropped in a burst that is much longer
// than the ring, and that each ends with the current state.
func TestPodsAPIBurst(t *testing.T) {
	w := newPodsWatch(t, startOurPodsAPI, 10, true)
	for range 20_000 {
		w.next()
	}
	if dropped, right := w.outcome(); dropped != 0 || right != 10 {
		t.Errorf("%d subscribers were dropped, %d end with the current state", dropped, right)
	}
}
