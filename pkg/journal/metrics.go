package journal

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	updates, encodes *prometheus.CounterVec
	resets           prometheus.Counter
}

// newMetrics registers the journal's metrics, where there is a registry.
func newMetrics(reg prometheus.Registerer, j *Journal) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "podconfigd", Subsystem: "journal", Name: name, Help: help}
	}
	m := &metrics{
		updates: prometheus.NewCounterVec(prometheus.CounterOpts(
			opts("updates_total", "Updates taken, by operation and source.")), []string{"op", "source"}),
		encodes: prometheus.NewCounterVec(prometheus.CounterOpts(
			opts("pod_encodes_total", "Versions of pods encoded, by wire form; each is encoded once a form.")), []string{"form"}),
		resets: prometheus.NewCounter(prometheus.CounterOpts(
			opts("resets_total", "Times that a reader was given the state anew."))),
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 {
			j.mu.RLock()
			defer j.mu.RUnlock()
			return read()
		})
	}
	reg.MustRegister(m.updates, m.encodes, m.resets,
		gauge("revision", "Revision of the newest update.", func() float64 { return float64(j.head) }),
		gauge("compacted_revision", "Newest revision that can't be resumed from.", func() float64 { return float64(j.compacted) }),
		gauge("entries", "Updates in the ring.", func() float64 { return float64(j.ring.len()) }),
		gauge("bytes", "About how much memory the pods in the ring take.", func() float64 { return float64(j.bytes) }),
		gauge("pods", "Pods in the present state.", func() float64 { return float64(len(j.state)) }),
		gauge("subscribers", "Readers of the stream.", func() float64 { return float64(len(j.cursors)) }),
		gauge("ready", "1 once every source has been seen.", func() float64 {
			if j.readyLocked() {
				return 1
			}
			return 0
		}),
	)
	return m
}
