package bench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkFirstSet measures the time until all manifests of a directory are delivered.
// For podconfigd it starts with the process and ends when a subscriber, which connects as
// soon as the socket exists, has read every pod and the bookmark of a ready daemon. For
// the kubelet it starts with the creation of its file source, in a new process, and ends
// with the ADD in its channel.
func BenchmarkFirstSet(b *testing.B) {
	for _, p := range peers {
		for _, manifests := range []int{110, 500} {
			b.Run(fmt.Sprintf("peer=%s/manifests=%d", p.name, manifests), func(b *testing.B) {
				dir := newDirectoryOf(b, manifests)
				var times []time.Duration
				for b.Loop() {
					f := p.start(b, dir)
					pods, took := f.first(b)
					times = append(times, took)
					b.StopTimer()
					if pods != manifests {
						b.Fatalf("the first set has %d pods, there are %d manifests", pods, manifests)
					}
					f.stop()
					b.StartTimer()
				}
				report(b, times, 50, 100)
			})
		}
	}
}
