package follow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// Status is how changes are found.
type Status struct {
	// Watch is WatchInotify, or WatchPolling if inotify is not available. WatchError is
	// the reason.
	Watch, WatchError string
	// Overflows is the number of times that inotify lost events and the path was listed
	// again.
	Overflows int
}

// Status returns how changes are found. Only the goroutine that ranges over Changes may
// call it.
func (f *Follower) Status() Status { return f.status }

// Busy returns how long Changes and its caller have been working on a change. Any goroutine can
// call it.
func (f *Follower) Busy() time.Duration {
	since := f.busySince.Load()
	if since == nil {
		return 0
	}
	return time.Since(*since)
}

// Relist makes Changes list the path within a poll period, or as soon as the file system answers.
// Any goroutine can call it.
func (f *Follower) Relist() { f.relist.Store(true) }

// Done ends the time of Busy: the caller has read the files, and waits for something else.
func (f *Follower) Done() { f.busySince.Store(nil) }

func (f *Follower) work() {
	f.began = time.Now()
	f.busySince.Store(new(f.began))
}

type metrics struct {
	scans, overflows prometheus.Counter
	watching         prometheus.Gauge
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "file_source")
	return &metrics{
		scans:     in.Counter("scans_total", "Listings of the manifest path."),
		overflows: in.Counter("watch_overflows_total", "Times that the inotify queue overflowed and the path was listed again."),
		watching:  in.Gauge("watching", "1 while inotify reports changes, 0 while the path is polled."),
	}
}
