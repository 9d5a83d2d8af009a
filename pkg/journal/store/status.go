package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// Status is the status of a log.
type Status struct {
	// Instance is the instance under which sets are shown.
	Instance string
	// Err is nil if sets are stored. Otherwise it is the reason, since Since.
	Err   error
	Since time.Time
	// Segments and Bytes are the number and size of the segments.
	Segments int
	Bytes    int64
}

// Status returns the current status.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Instance: l.instance, Since: l.since}
	if l.mode == failed {
		s.Err = l.cause
	}
	s.Bytes, s.Segments = l.bytesLocked(), len(l.segments)
	if l.file != nil {
		s.Segments++
	}
	return s
}

type metrics struct {
	written  prometheus.Counter
	failures prometheus.Counter
}

// newMetrics registers the log's metrics, if there is a registry.
func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	in := metric.In(reg, "store")
	gauge := func(name, help string, read func(Status) float64) {
		in.GaugeFunc(name, help, func() float64 { return read(l.Status()) })
	}
	gauge("healthy", "1 while updates are stored, 0 while the stream goes on from memory.", func(s Status) float64 { return metric.Bool(s.Err == nil) })
	gauge("bytes", "Size of the segments.", func(s Status) float64 { return float64(s.Bytes) })
	gauge("segments", "Number of segments.", func(s Status) float64 { return float64(s.Segments) })
	return &metrics{
		written:  in.Counter("written_bytes_total", "Bytes of updates written."),
		failures: in.Counter("failures_total", "Times that updates could not be stored any more."),
	}
}
