package resident

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// The start has ended when earliest has passed and the process used less than idle in an interval.
	earliest = 3 * time.Second
	interval = time.Second
	idle     = interval / 50
	// After the start, the heap is checked once in each period. So collections, and the page faults after them, take little
	// processor time.
	period = time.Minute
	// enough is the growth of the heap that is worth a collection, if it is also an eighth of the heap.
	enough = 1 << 20
)

// keeper has what Keep does, for tests.
type keeper struct {
	used  func() time.Duration // processor time
	held  func() uint64        // bytes of the heap
	free  func()
	unmap func() error
}

// Keep gives memory back until the context is done. When the start of the process has ended, it collects garbage,
// returns the free memory to the system, and unmaps the pages of the program's file. Later, it collects and returns
// memory when the heap has grown, at most once a minute. The pages of the program that are used again stay: they are
// what the daemon needs.
func Keep(ctx context.Context) {
	(&keeper{processorTime, held, debug.FreeOSMemory, unmap}).run(ctx)
}

func (k *keeper) run(ctx context.Context) {
	used := time.Duration(0)
	for wait := earliest; ; wait = interval {
		if await.For(ctx, wait) != nil {
			return
		}
		before := used
		if used = k.used(); wait == interval && used-before < idle {
			break
		}
	}
	runtime.GC() // what is in pools is garbage after two collections
	k.free()
	if err := k.unmap(); err != nil {
		klog.FromContext(ctx).V(2).Info("Could not unmap the pages of the program", "err", err)
	}
	for last := k.held(); await.For(ctx, period) == nil; {
		if now := k.held(); now >= last+max(enough, last/8) {
			k.free()
			last = k.held()
		}
	}
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it fails only for other arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// held returns the resident memory of the heap, in bytes.
func held() (total uint64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		total += s.Value.Uint64()
	}
	return total
}
