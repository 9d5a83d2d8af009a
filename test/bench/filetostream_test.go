package bench

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

const (
	// pace is the wait before each change, so that the peer is idle. It is not part of
	// any result.
	pace = 5 * time.Millisecond
	// warmUp is the number of changes before the measurement.
	warmUp = 20
)

// BenchmarkFileToStream measures the time from the rename of a manifest into the
// directory until the ADD of its pod has been read: by a subscriber of podconfigd from
// the socket, and from the kubelet's channel within its process. Each op is one change of
// the same manifest. others is the number of further manifests, which do not change.
func BenchmarkFileToStream(b *testing.B) {
	for _, p := range peers {
		for _, others := range []int{0, 110, 500} {
			b.Run(fmt.Sprintf("peer=%s/others=%d", p.name, others), func(b *testing.B) {
				dir := newDirectoryOf(b, others)
				changing := manifest{name: "changing"}
				dir.put(b, changing)
				f := p.start(b, dir)
				defer f.stop()
				f.first(b)
				pause(b, arming)
				change := func(version int) time.Duration {
					pause(b, pace)
					changing.version = strconv.Itoa(version)
					renamed := dir.put(b, changing)
					return f.await(b, changing.version) - renamed
				}
				for i := range warmUp {
					change(i + 1)
				}
				var times []time.Duration
				for b.Loop() {
					times = append(times, change(warmUp+len(times)+1))
				}
				report(b, times, 50, 99, 100)
			})
		}
	}
}

// report reports the mean of the times as the time of an op, and percentiles.
func report(b *testing.B, times []time.Duration, percentiles ...int) {
	b.Helper()
	slices.Sort(times)
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(len(times)), "ns/op")
	reportAs(b, "", times, percentiles...)
}

// reportAs reports percentiles of the times, with a prefix for the unit.
func reportAs(b *testing.B, prefix string, times []time.Duration, percentiles ...int) {
	b.Helper()
	slices.Sort(times)
	for _, p := range percentiles {
		name := fmt.Sprintf("p%d-ms", p)
		if p == 100 {
			name = "max-ms"
		}
		b.ReportMetric(times[(len(times)-1)*p/100].Seconds()*1e3, prefix+name)
	}
}
