package apiserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// subsystem is part of the names of the metrics.
const subsystem = "api_source"

// board has the status and the metrics that belong to it.
type board struct {
	*sources.Board
	metrics *metrics
	// watched means that there was a watch. Only update's function reads and writes it.
	watched bool
}

func newBoard(reg prometheus.Registerer) *board {
	return &board{metrics: newMetrics(reg), Board: sources.NewBoard(v1alpha1.SourceStatus{
		Name: config.ApiserverSource, API: &v1alpha1.APIStatus{},
	}, reg, subsystem, "1 if requests to the apiserver fail. The last pods stay.")}
}

// update changes the part of the status that only the apiserver source has.
func (b *board) update(change func(*v1alpha1.APIStatus)) {
	b.Update(func(status *v1alpha1.SourceStatus) { change(status.API) })
}

// listed records that a list is complete.
func (b *board) listed() {
	now := time.Now()
	b.metrics.lastList.Set(float64(now.UnixMilli()) / 1000)
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) {
		if status.LastList != nil {
			status.Relists++
			b.metrics.relists.Inc()
		}
		status.LastList = &now
	})
}

// watching records that a watch started. That proves nothing about the pods.
func (b *board) watching() {
	b.metrics.connected.Set(1)
	b.update(func(status *v1alpha1.APIStatus) {
		status.Connected = true
		if b.watched {
			status.WatchRestarts++
			b.metrics.restarts.Inc()
		}
		b.watched = true
	})
}

// watchEnded records that there is no watch.
func (b *board) watchEnded() {
	b.metrics.connected.Set(0)
	b.update(func(status *v1alpha1.APIStatus) { status.Connected = false })
}

// event records an event of a watch.
func (b *board) event(event watch.Event) {
	b.metrics.events.WithLabelValues(string(event.Type)).Inc()
	now := time.Now()
	b.metrics.lastEvent.Set(float64(now.UnixMilli()) / 1000)
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) { status.LastEvent = &now })
}

type metrics struct {
	relists, restarts, failures    prometheus.Counter
	events                         *prometheus.CounterVec
	connected, lastList, lastEvent prometheus.Gauge
}

// newMetrics registers the source's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, subsystem)
	return &metrics{
		relists:  in.Counter("relists_total", "Lists of the node's pods after the first."),
		restarts: in.Counter("watch_restarts_total", "Watches after the first."),
		failures: in.Counter("failures_total", "Failed requests to the apiserver."),
		events: in.CounterVec("watch_events_total", "Events of watches, by type.", "type",
			string(watch.Added), string(watch.Modified), string(watch.Deleted), string(watch.Bookmark)),
		connected: in.Gauge("connected", "1 while there is a watch."),
		lastList:  in.Gauge("last_list_timestamp_seconds", "Unix time of the last complete list."),
		lastEvent: in.Gauge("last_event_timestamp_seconds", "Unix time of the last event of a watch."),
	}
}
