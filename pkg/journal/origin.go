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
}

// originOf returns the origin of the set of an update; nil if it follows from no event.
func (j *Journal) originOf(u *config.PodUpdate) *Origin {
	if u.Event.Time.IsZero() {
		return nil
	}
	return &Origin{
		event:    u.Event,
		recorded: j.metrics.recorded.WithLabelValues(u.Source), delivered: j.metrics.delivered.WithLabelValues(u.Source),
	}
}

// shown records that subscribers can read the set.
func (o *Origin) shown() {
	if o != nil {
		o.recorded.Observe(time.Since(o.event.Time).Seconds())
	}
}

// Delivered records that all that a subscriber gets of the set was written to it.
func (o *Origin) Delivered(at time.Time) { o.delivered.Observe(at.Sub(o.event.Time).Seconds()) }
