package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Status is the status of a log.
type Status struct {
	// Instance is the instance under which sets are shown.
	Instance string
	// Err is nil if sets are stored. Otherwise it is the reason, since Since.
	Err   error
	Since time.Time
	// Segments and Bytes are the number and size of the segments.
	Segments int
	Bytes    int64
	// TooLarge are pods that are too large to be stored, by name. The other pods are stored.
	TooLarge []types.NamespacedName
}

// Status returns the current status.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Instance: l.instance, Since: l.since}
	if l.mode == failed {
		s.Err = l.cause
	}
	s.Bytes, s.Segments = l.bytesLocked(), len(l.segments)
	if l.file != nil {
		s.Segments++
	}
	s.TooLarge = slices.SortedFunc(maps.Values(l.tooLarge), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return s
}

// noteTooLarge records and logs the pods of a set that are too large: only their names are stored.
func (l *Log) noteTooLarge(set *journal.Set, tooLarge map[*journal.Pod]bool) {
	for _, u := range set.Updates {
		if !u.Op.IsConfig() {
			continue
		}
		for _, p := range u.Pods {
			key := podKey{u.Source, p.Object.UID}
			if u.Op == config.REMOVE || !tooLarge[p] {
				delete(l.tooLarge, key)
				continue
			}
			name := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
			if _, ok := l.tooLarge[key]; !ok {
				l.logger.Error(fmt.Errorf("the pod is larger than %d MiB", maxPod>>20), "The pod is not stored; the next start resets all subscribers",
					"source", u.Source, "pod", name)
			}
			l.tooLarge[key] = name
		}
	}
}

type metrics struct {
	written  prometheus.Counter
	failures prometheus.Counter
}

// newMetrics registers the log's metrics, if there is a registry.
func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	in := metric.In(reg, "store")
	gauge := func(name, help string, read func(Status) float64) {
		in.GaugeFunc(name, help, func() float64 { return read(l.Status()) })
	}
	gauge("healthy", "1 while updates are stored, 0 while the stream goes on from memory.", func(s Status) float64 { return metric.Bool(s.Err == nil) })
	gauge("bytes", "Size of the segments.", func(s Status) float64 { return float64(s.Bytes) })
	gauge("segments", "Number of segments.", func(s Status) float64 { return float64(s.Segments) })
	return &metrics{
		written:  in.Counter("written_bytes_total", "Bytes of updates written."),
		failures: in.Counter("failures_total", "Times that updates could not be stored any more."),
	}
}
