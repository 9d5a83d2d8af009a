package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
)

type metrics struct {
	updates *prometheus.CounterVec
	resets  *prometheus.CounterVec
	// recorded and delivered are the delays of updates.
	recorded, delivered *prometheus.HistogramVec
}

// newMetrics registers the journal's metrics, if there is a registry.
func newMetrics(reg prometheus.Registerer, j *Journal) *metrics {
	in := metric.In(reg, "journal")
	gauge := func(name, help string, read func() float64) {
		in.GaugeFunc(name, help, func() float64 {
			j.mu.RLock()
			defer j.mu.RUnlock()
			return read()
		})
	}
	gauge("revision", "Revision of the newest update.", func() float64 { return float64(j.table.revision) })
	gauge("compacted_revision", "Newest revision that can't be resumed from.", func() float64 { return float64(j.compacted) })
	gauge("entries", "Updates in the ring.", func() float64 { return float64(j.updates) })
	gauge("bytes", "About how much memory the pods take that only the ring holds.", func() float64 { return float64(j.bytes) })
	gauge("pods", "Current pods.", func() float64 { return float64(j.table.pods.Len()) })
	gauge("subscribers", "Subscribers of the stream.", func() float64 { return float64(len(j.subscribers)) })
	gauge("ready", "1 once every source has been seen.", func() float64 { return metric.Bool(j.table.bookmark.Ready) })
	gauge("restored_sources", "Sources whose pods are from before a restart, because they have not been seen yet.",
		func() float64 { return float64(len(j.table.bookmark.AllRestored())) })
	gauge("slowest_subscriber_lag_revisions", "How many revisions the slowest subscriber is behind.", func() float64 {
		revisions, _ := j.slowestLocked(time.Now())
		return float64(revisions)
	})
	gauge("slowest_subscriber_lag_seconds", "Age of the oldest update that the slowest subscriber has not got, in seconds.", func() float64 {
		_, age := j.slowestLocked(time.Now())
		return age.Seconds()
	})
	delays := []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	m := &metrics{
		recorded: in.HistogramVec("update_delay_seconds",
			"Time from the event at which a source read a change until subscribers can read the update, in seconds.", delays, "source"),
		delivered: in.HistogramVec("delivery_delay_seconds",
			"Time from the event at which a source read a change until the update was written to a subscriber, in seconds. Each subscriber counts, if it was connected when the update was recorded.",
			delays, "source"),
		updates: in.Counters("updates_total", "Updates taken, by operation and source.", "op", "source"),
		resets:  in.CounterVec("resets_total", "Resets of subscribers, to the current state, by reason.", "reason"),
	}
	for _, reason := range ResetReasons() {
		m.resets.WithLabelValues(string(reason))
	}
	return m
}

// Origin is the event from which a set follows. It measures the delay of the set. A nil Origin
// measures nothing.
type Origin struct {
	at time.Time
	// recorded and delivered belong to the source. They are resolved when the set is recorded:
	// a late delivery does not bring back the metrics of a source that is removed.
	recorded, delivered prometheus.Observer
}

// originOf returns the origin of the set of an update; nil if it follows from no event.
func (j *Journal) originOf(u *config.PodUpdate) *Origin {
	if u.Event.Time.IsZero() {
		return nil
	}
	return &Origin{
		at:       u.Event.Time,
		recorded: j.metrics.recorded.WithLabelValues(u.Source), delivered: j.metrics.delivered.WithLabelValues(u.Source),
	}
}

// shown records that subscribers can read the set.
func (o *Origin) shown() {
	if o != nil {
		o.recorded.Observe(time.Since(o.at).Seconds())
	}
}

// Delivered records that a subscriber has got its part of the set.
func (o *Origin) Delivered(at time.Time) { o.delivered.Observe(at.Sub(o.at).Seconds()) }
