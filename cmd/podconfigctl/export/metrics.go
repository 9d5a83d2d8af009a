package export

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// requestTimeout is the time in which a request for the metrics must arrive, and its answer must be read. idleTimeout is the time after
// which a connection without a request is closed. A Prometheus asks more often.
const (
	requestTimeout = 10 * time.Second
	idleTimeout    = 2 * time.Minute
)

// metrics count what was exported.
type metrics struct {
	records, rejected, failures prometheus.Counter
	gaps                        prometheus.Counter
	// waits is the time of the oldest record that was sent and is not acknowledged, in nanoseconds; 0 for none.
	waits atomic.Uint64
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "export")
	m := &metrics{
		records:  in.Counter("records_total", "Records that the Collector has acknowledged, without those that it rejected."),
		rejected: in.Counter("rejected_records_total", "Records that the Collector has rejected for good."),
		gaps:     in.Counter("gaps_total", "Gaps in the changes that the daemon could give."),
		failures: in.Counter("failures_total", "Requests to the Collector that failed and are repeated."),
	}
	in.GaugeFunc("lag_seconds", "Age of the oldest record that is sent and not acknowledged; 0 if there is none.", func() float64 {
		at := m.waits.Load()
		if at == 0 {
			return 0
		}
		return max(time.Since(time.Unix(0, int64(at))).Seconds(), 0)
	})
	return m
}

// sending notes the batch that is sent, and nil if it is acknowledged.
func (m *metrics) sending(records []*logs.LogRecord) {
	if len(records) == 0 {
		m.waits.Store(0)
		return
	}
	at := records[0].TimeUnixNano
	if at == 0 {
		at = records[0].ObservedTimeUnixNano
	}
	m.waits.Store(at)
}

// serveMetrics serves the metrics until the returned function is called.
func serveMetrics(ctx context.Context, address string, reg *prometheus.Registry) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-address: %w", err)
	}
	server := metricsServer(reg)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // ends with Close
	return func() { _ = server.Close(); serving.Wait() }, nil
}

func metricsServer(reg *prometheus.Registry) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return &http.Server{Handler: mux, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout}
}
