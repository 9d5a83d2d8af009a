package apiserver

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Status is what the source has to say of itself.
type Status struct {
	sources.Condition
	// Server is the apiserver's URL; empty before the kubeconfig could be read.
	Server string
	// NodeKnown: the apiserver knew the node; pods are held back until then.
	NodeKnown bool
	// Connected: there is a watch.
	Connected bool
	// LastList is when a list was complete last, LastEvent when a watch gave its last
	// event, bookmarks among them.
	LastList, LastEvent *time.Time
	// Relists counts the lists after the first, WatchRestarts the watches that went on
	// where one before had ended.
	Relists, WatchRestarts int
}

// board is the status as others read it, and the metrics that go with it.
type board struct {
	metrics *metrics

	mu     sync.Mutex
	status Status
	// watches counts those that were begun; with a list, the first goes with it.
	lists, watches int
}

func newBoard(m *metrics) *board { return &board{metrics: m} }

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// failed notes an error, and tells whether it is another one than the last.
func (b *board) failed(err error) bool {
	b.metrics.degraded.Set(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Failed(err)
}

// succeeded tells whether it is news.
func (b *board) succeeded() bool {
	b.metrics.degraded.Set(0)
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.status.Degraded
	b.status.Succeeded()
	return was
}

// listed notes that a list is complete.
func (b *board) listed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.status.LastList = &now
	b.metrics.lastList.Set(float64(now.UnixMilli()) / 1000)
	if b.lists++; b.lists > 1 {
		b.status.Relists++
		b.metrics.relists.Inc()
	}
	b.watches = 0
}

// watching notes that a watch has begun, which is to list first or not.
func (b *board) watching(lists bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Connected = true
	b.metrics.connected.Set(1)
	if lists {
		return
	}
	if b.watches++; b.watches > 1 {
		b.status.WatchRestarts++
		b.metrics.restarts.Inc()
	}
}

func (b *board) watchEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Connected = false
	b.metrics.connected.Set(0)
}

func (b *board) event(event watch.Event) {
	if endsInitialEvents(event) {
		b.listed()
		b.mu.Lock()
		b.watches = 1 // it goes on as a watch
		b.mu.Unlock()
	}
	b.metrics.events.WithLabelValues(string(event.Type)).Inc()
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.status.LastEvent = &now
	b.metrics.lastEvent.Set(float64(now.UnixMilli()) / 1000)
}

type metrics struct {
	relists, restarts, failures              prometheus.Counter
	events                                   *prometheus.CounterVec
	connected, degraded, lastList, lastEvent prometheus.Gauge
}

// newMetrics registers the source's metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "api_source"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	m := &metrics{
		relists:  counter("relists_total", "Lists of the node's pods after the first."),
		restarts: counter("watch_restarts_total", "Watches that went on where one before had ended."),
		failures: counter("failures_total", "Attempts to ask the apiserver that failed."),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watch_events_total", Help: "Events of watches, by type.",
		}, []string{"type"}),
		connected: gauge("connected", "1 while there is a watch."),
		degraded:  gauge("degraded", "1 while the apiserver can't be asked and the last pods are held."),
		lastList:  gauge("last_list_timestamp_seconds", "When a list was complete last."),
		lastEvent: gauge("last_event_timestamp_seconds", "When a watch gave its last event."),
	}
	if reg != nil {
		reg.MustRegister(m.relists, m.restarts, m.failures, m.events, m.connected, m.degraded, m.lastList, m.lastEvent)
	}
	return m
}
