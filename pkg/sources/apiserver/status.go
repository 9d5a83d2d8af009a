package apiserver

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// board is the status as others read it, and the metrics that go with it.
type board struct {
	*sources.Board
	metrics *metrics

	mu sync.Mutex // guards what follows
	// watches counts those that were begun; with a list, the first goes with it.
	lists, watches int
}

func newBoard(m *metrics) *board {
	return &board{metrics: m, Board: sources.NewBoard(v1alpha1.SourceStatus{
		Name: config.ApiserverSource, API: &v1alpha1.APIStatus{},
	}, m.degraded)}
}

// update changes what is the apiserver source's own.
func (b *board) update(change func(*v1alpha1.APIStatus)) {
	b.Update(func(status *v1alpha1.SourceStatus) { change(status.API) })
}

// listed notes that a list is complete.
func (b *board) listed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.metrics.lastList.Set(float64(now.UnixMilli()) / 1000)
	b.lists++
	again := b.lists > 1
	if again {
		b.metrics.relists.Inc()
	}
	b.watches = 0
	b.update(func(status *v1alpha1.APIStatus) {
		status.LastList = &now
		if again {
			status.Relists++
		}
	})
}

// watching notes that a watch has begun, which is to list first or not.
func (b *board) watching(lists bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.metrics.connected.Set(1)
	if !lists {
		b.watches++
	}
	again := !lists && b.watches > 1
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

func (b *board) watchEnded() {
	b.metrics.connected.Set(0)
	b.update(func(status *v1alpha1.APIStatus) { status.Connected = false })
}

func (b *board) event(event watch.Event) {
	if endsInitialEvents(event) {
		b.listed()
		b.mu.Lock()
		b.watches = 1 // it goes on as a watch
		b.mu.Unlock()
	}
	b.metrics.events.WithLabelValues(string(event.Type)).Inc()
	now := time.Now()
	b.metrics.lastEvent.Set(float64(now.UnixMilli()) / 1000)
	b.update(func(status *v1alpha1.APIStatus) { status.LastEvent = &now })
}

type metrics struct {
	relists, restarts, failures              prometheus.Counter
	events                                   *prometheus.CounterVec
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
	return &metrics{
		relists:  counter("relists_total", "Lists of the node's pods after the first."),
		restarts: counter("watch_restarts_total", "Watches that went on where one before had ended."),
		failures: counter("failures_total", "Attempts to ask the apiserver that failed."),
		events: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watch_events_total", Help: "Events of watches, by type.",
		}, []string{"type"}),
		connected: gauge("connected", "1 while there is a watch."),
		degraded:  gauge("degraded", "1 while the apiserver can't be asked and the last pods are held."),
		lastList:  gauge("last_list_timestamp_seconds", "When a list was complete last."),
		lastEvent: gauge("last_event_timestamp_seconds", "When a watch gave its last event."),
	}
}
