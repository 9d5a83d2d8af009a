package apiserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) {
		if status.LastList != nil {
			status.Relists++
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
func (b *board) event() {
	now := time.Now()
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) { status.LastEvent = &now })
}

type metrics struct {
	failures  prometheus.Counter
	connected prometheus.Gauge
}

// newMetrics registers the source's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, subsystem)
	return &metrics{
		failures:  in.Counter("failures_total", "Failed requests to the apiserver."),
		connected: in.Gauge("connected", "1 while there is a watch."),
	}
}
