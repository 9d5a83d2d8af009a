package pleg

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkMemoryOfRemoved prints the memory of 10,000 containers that the runtime has removed.
func BenchmarkMemoryOfRemoved(b *testing.B) {
	for b.Loop() {
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		r, code, at := newRecords(), int32(3), time.Now()
		for i := range 10000 {
			uid := types.UID(fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%012d", i/2))
			c := Container{ID: fmt.Sprintf("%064d", i), Name: strings.Clone("app"), State: StateRunning, CreatedAt: at, StartedAt: at}
			pod := &Pod{UID: uid, Namespace: strings.Clone("default"), Name: fmt.Sprintf("checkout-7d9f8b6c5d-%05d", i/2), Containers: []Container{c}}
			r.apply(uid, pod, []change{{container: c, from: StateNone, to: StateRunning}}, at)
			c.State, c.ExitCode, c.FinishedAt = StateExited, &code, at
			r.apply(uid, pod, []change{{container: c, from: StateRunning, to: StateNone}}, at)
		}
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		runtime.KeepAlive(r)
	}
}
