package apiserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// board has the status and the metrics that belong to it.
type board struct {
	*sources.Board
	metrics *metrics
}

func newBoard(m *metrics) *board {
	return &board{metrics: m, Board: sources.NewBoard(v1alpha1.SourceStatus{
		Name: config.ApiserverSource, API: &v1alpha1.APIStatus{},
	}, m.degraded, m.common)}
}

// update changes the part of the status that only the apiserver source has.
func (b *board) update(change func(*v1alpha1.APIStatus)) {
	b.Update(func(status *v1alpha1.SourceStatus) { change(status.API) })
}

// listed records that a list is complete.
func (b *board) listed() {
	now := time.Now()
	b.metrics.lastList.Set(float64(now.UnixMilli()) / 1000)
	b.metrics.common.Succeeded()
	b.update(func(status *v1alpha1.APIStatus) {
		if status.LastList != nil {
			status.Relists++
			b.metrics.relists.Inc()
		}
		status.LastList = &now
	})
}

// watching records that a watch started, and whether it resumed after another.
func (b *board) watching(again bool) {
	b.metrics.connected.Set(1)
	b.metrics.common.Succeeded()
	if again {
		b.metrics.restarts.Inc()
	}
	b.update(func(status *v1alpha1.APIStatus) {
		status.Connected = true
		if again {
			status.WatchRestarts++
		}
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
	b.metrics.common.Succeeded()
	b.update(func(status *v1alpha1.APIStatus) { status.LastEvent = &now })
}

type metrics struct {
	common                                   *sources.Metrics
	relists, restarts, failures              prometheus.Counter
	events, comparisons                      *prometheus.CounterVec
	connected, degraded, lastList, lastEvent prometheus.Gauge
}

// newMetrics registers the source's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "api_source"
	factory := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return factory.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		common:      sources.NewMetrics(reg),
		relists:     counter("relists_total", "Lists of the node's pods after the first."),
		restarts:    counter("watch_restarts_total", "Watches that resumed after another."),
		failures:    counter("failures_total", "Failed requests to the apiserver."),
		events:      counters("watch_events_total", "Events of watches, by type.", "type"),
		comparisons: counters("comparisons_total", "Comparisons of the pods with the apiserver's, before a watch resumes, by result: same or other.", "result"),
		connected:   gauge("connected", "1 while there is a watch."),
		degraded:    gauge("degraded", "1 if requests to the apiserver fail. The last pods stay."),
		lastList:    gauge("last_list_timestamp_seconds", "Unix time of the last complete list."),
		lastEvent:   gauge("last_event_timestamp_seconds", "Unix time of the last event of a watch."),
	}
	for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
		m.events.WithLabelValues(string(kind))
	}
	for _, result := range []string{"same", "other"} {
		m.comparisons.WithLabelValues(result)
	}
	return m
}
