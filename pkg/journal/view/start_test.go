package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// BenchmarkAppendBesideStarts measures how long an append takes, alone and while a
// thousand subscribers repeatedly start at once. An op is an update. The journal has 500
// pods.
func BenchmarkAppendBesideStarts(b *testing.B) {
	for _, starts := range []int{0, 1000} {
		b.Run(fmt.Sprintf("starts=%d", starts), func(b *testing.B) {
			j := newJournal(journal.Options{})
			u := update(config.ADD)
			for i := range 500 {
				u.Pods = append(u.Pods, pod(fmt.Sprintf("p%d=0", i)))
			}
			appendSet(j, u)
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			for range starts {
				running.Go(func() { begin(ctx, j) })
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				next := update(config.UPDATE, fmt.Sprintf("p%d=%d", i%500, i))
				start := time.Now()
				j.Append(next)
				took = append(took, time.Since(start))
			}
			cancel()
			running.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
		})
	}
}

// begin starts a subscription, reads the current state, and starts again.
func begin(ctx context.Context, j *testJournal) {
	for ctx.Err() == nil {
		c := Stream(j.Journal, StreamOptions{})
		for {
			frames, err := c.Next(ctx)
			if err != nil || len(frames) == 0 || frames[len(frames)-1].InitialSyncComplete {
				break
			}
		}
		c.Close()
	}
}
