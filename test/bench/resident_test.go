package bench

import (
	"testing"
	"time"
)

const (
	// settling is the wait before memory is measured: the daemon gives memory back ten seconds after its start, and the
	// runtime of Go what a change left. idling is how long processor time is measured after that.
	settling = 70 * time.Second
	idling   = 10 * time.Second
)

// BenchmarkResident measures the resources of an idle daemon: the memory with 110 static
// pods and a connected subscriber that has read them, and the share of one core. With
// journal=full, the ring of updates has been filled before, up to its default limits.
func BenchmarkResident(b *testing.B) {
	for _, state := range states {
		b.Run("journal=empty/state="+state, func(b *testing.B) { resident(b, state, 0) })
		b.Run("journal=full/state="+state, func(b *testing.B) { resident(b, state, 12000) })
	}
}

func resident(b *testing.B, state string, changes int) {
	b.Helper()
	const megabyte = 1e6
	var rss, peak, cpu float64
	for b.Loop() {
		f := newFanOut(b, 1, stateArgs(b, state)...)
		for range changes {
			f.change(b)
		}
		f.settle(b, 0)
		pause(b, settling)
		rss += f.daemon.memory(b, "VmRSS") / megabyte
		peak += f.daemon.memory(b, "VmHWM") / megabyte
		before := f.daemon.cpu(b)
		pause(b, idling)
		cpu += 100 * (f.daemon.cpu(b) - before).Seconds() / idling.Seconds()
		f.daemon.stop()
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rss/n, "rss-MB")
	b.ReportMetric(peak/n, "peak-MB")
	b.ReportMetric(cpu/n, "cpu-percent")
}
