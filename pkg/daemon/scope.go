package daemon

import "github.com/prometheus/client_golang/prometheus"

// scope registers the metrics of one source, with the name of the source as a label.
type scope struct {
	prometheus.Registerer

	collectors []prometheus.Collector
}

func newScope(registry prometheus.Registerer, source string) *scope {
	return &scope{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"source": source}, registry)}
}

// Register registers a metric until close.
func (s *scope) Register(c prometheus.Collector) error {
	if err := s.Registerer.Register(c); err != nil {
		return err
	}
	s.collectors = append(s.collectors, c)
	return nil
}

// MustRegister registers metrics until close.
func (s *scope) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := s.Register(c); err != nil {
			panic(err)
		}
	}
}

// close unregisters all metrics.
func (s *scope) close() {
	for _, c := range s.collectors {
		s.Unregister(c)
	}
	s.collectors = nil
}
