package wire

import "github.com/prometheus/client_golang/prometheus"

// encodes counts for the whole process, because an encoding belongs to no server.
var encodes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: "podconfigd", Subsystem: "journal", Name: "pod_encodes_total",
	Help: "Versions of pods encoded, by wire form; each is encoded once a form.",
}, []string{"form"})

// Encodes returns the metric of encoded versions of pods.
func Encodes() *prometheus.CounterVec { return encodes }
