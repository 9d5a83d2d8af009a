package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Origin is the event from which a set follows. It measures the delay of the set. A nil Origin
// measures nothing.
type Origin struct {
	event config.Event
	// recorded and delivered belong to the source. They are resolved when the set is recorded:
	// a late delivery does not bring back the metrics of a source that is removed.
	recorded, delivered prometheus.Observer
	// began is when the journal got the set.
	began time.Time
}

// originOf returns the origin of the set of an update; nil if it follows from no event.
func (j *Journal) originOf(u *config.PodUpdate, began time.Time) *Origin {
	if u.Event.Time.IsZero() {
		return nil
	}
	return &Origin{
		event: u.Event, began: began,
		recorded: j.metrics.recorded.WithLabelValues(u.Source), delivered: j.metrics.delivered.WithLabelValues(u.Source),
	}
}

// shown records that as many subscribers can read the set.
func (o *Origin) shown(revision int64, subscribers int) {
	if o == nil {
		return
	}
	o.recorded.Observe(time.Since(o.event.Time).Seconds())
	if o.event.Trace != nil {
		o.event.Trace.Recorded(o.began, revision, subscribers)
	}
}

// Delivered records that all that a subscriber gets of the set was written to it, from started to
// ended.
func (o *Origin) Delivered(s *Subscriber, started, ended time.Time) {
	o.delivered.Observe(ended.Sub(o.event.Time).Seconds())
	if o.event.Trace != nil {
		o.event.Trace.Written(s.id, started, ended)
	}
}

// Skipped records that a subscriber gets nothing of the set.
func (o *Origin) Skipped() {
	if o.event.Trace != nil {
		o.event.Trace.Skipped()
	}
}
