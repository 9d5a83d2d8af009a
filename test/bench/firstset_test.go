package bench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkFirstSet measures how long it takes until all manifests of a directory
// are there. For podconfigd that is from the start of the process until a
// subscriber, which connects as soon as the socket is there, has read every pod and
// the bookmark that says that the daemon is ready. For the kubelet it is from the
// making of its file source, in a process that was started for it, until the ADD is
// in its channel.
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
