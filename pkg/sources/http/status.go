package http

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Status is what the source has to say of itself.
type Status struct {
	sources.Condition
	// URL is the manifest URL without user and query.
	URL string
	// LastSuccess is when the server last gave a good answer.
	LastSuccess *time.Time
	// Manifests has a verdict for each pod.
	Manifests []sources.Verdict
}

// board is the status as others read it.
type board struct {
	mu     sync.Mutex
	status Status
}

func newBoard(url string) *board { return &board{status: Status{URL: url}} }

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.Manifests = slices.Clone(status.Manifests)
	return status
}

// failed notes an error, and tells whether it is another one than the last.
func (b *board) failed(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Failed(err)
}

func (b *board) succeeded(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Succeeded()
	b.status.LastSuccess = &at
}

func (b *board) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Changed()
}

// judge records the verdicts, and tells of those that are new and bad.
func (b *board) judge(ctx context.Context, pods podSet) {
	verdicts := pods.verdicts()
	b.mu.Lock()
	before := b.status.Manifests
	b.status.Manifests = verdicts
	b.mu.Unlock()
	for _, v := range verdicts {
		same := func(old sources.Verdict) bool {
			return old.Path == v.Path && old.Namespace == v.Namespace && old.Name == v.Name && old.State == v.State && old.Message == v.Message
		}
		if v.State != sources.Accepted && !slices.ContainsFunc(before, same) {
			klog.FromContext(ctx).Info("Manifest not usable", "pod", klog.KRef(v.Namespace, v.Name), "item", v.Path,
				"state", v.State, "reason", v.Reason, "message", v.Message)
		}
	}
}

type metrics struct {
	decodes, failures prometheus.Counter
	degraded          prometheus.Gauge
}

// newMetrics registers the source's metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer) *metrics {
	const namespace, subsystem = "podconfigd", "http_source"
	m := &metrics{
		decodes: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "decodes_total", Help: "Answers that were decoded.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failures_total", Help: "Attempts that failed.",
		}),
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "degraded", Help: "1 while attempts fail and the last pods are held.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.decodes, m.failures, m.degraded)
	}
	return m
}
