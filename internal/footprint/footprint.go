//go:build linux

// Package footprint keeps the memory of the daemon small.
package footprint

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// startPercent is the growth of the heap between two collections during the start, unless the environment has GOGC.
// The start makes much garbage. Later, 50 would cost 8 to 10 % of the processor time of a delivery.
const startPercent = 50

// freeAfter are the waits before Run frees what the start left: after the first sets, and after those of slow
// sources.
var freeAfter = []time.Duration{3 * time.Second, time.Minute}

// Run frees what the start of the program left on the heap. It returns after that, or when the context is done.
func Run(ctx context.Context) {
	restore := collectOften()
	defer restore()
	for _, wait := range freeAfter {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		restore()
		debug.FreeOSMemory()
	}
}

// collectOften sets startPercent until restore is called.
func collectOften() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(startPercent)
	return sync.OnceFunc(func() { debug.SetGCPercent(before) })
}
