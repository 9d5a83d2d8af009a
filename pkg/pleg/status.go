package pleg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// answerTime is how long a list may take before the records count as behind.
const answerTime = time.Second

// keptDurations is the number of lists from which the percentiles of the duration are computed.
const keptDurations = 512

// generatorState is the state of the generator, apart from its records.
type generatorState struct {
	// Status has no numbers that Generator.Status counts.
	Status
	started time.Time
	// listed is when the last list was requested that the records have. active is when the last successful list was
	// requested. called is when the current list was requested; zero if there is none.
	listed, active, called time.Time
	// opened is when the stream was opened; zero without one. missed is when it last missed a change.
	opened, missed time.Time
	// said is the value of Evented that was logged last.
	said, saidNoEvents bool
	durations          []time.Duration
}

// relist records a list. If it is dropped, the records do not have it.
func (s *generatorState) relist(begin, end time.Time, err error, dropped bool) {
	s.Relists++
	if len(s.durations) == keptDurations {
		s.durations = s.durations[1:]
	}
	s.durations = append(s.durations, end.Sub(begin))
	if err != nil {
		s.RelistErrors++
		s.LastError = err.Error()
		return
	}
	s.LastError = ""
	s.active = begin
	if !dropped {
		s.listed = begin
	}
}

// behind implements Generator.Behind.
func (s *generatorState) behind(at time.Time) error {
	switch {
	case s.LastError != "":
		return fmt.Errorf("the container runtime does not answer: %s", s.LastError)
	case s.listed.IsZero():
		return errors.New("the container runtime has not answered yet")
	case !s.called.IsZero() && time.Since(s.called) > answerTime:
		return fmt.Errorf("the container runtime has not answered for %s", duration.HumanDuration(time.Since(s.called)))
	case s.listed.Before(at):
		return errors.New("the container runtime has not listed its containers since the lookup started; retry, or wait longer")
	}
	return nil
}

// Healthy reports whether the runtime answered within the threshold. A generator that has just started is healthy.
//
// kubelet: pkg/kubelet/pleg/generic.go Healthy, which is unhealthy until the first list.
func (g *Generator) Healthy() (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	active := g.state.active
	if active.IsZero() {
		active = g.state.started
	}
	idle := time.Since(active)
	if idle <= g.opts.RelistThreshold {
		return true, nil
	}
	msg := fmt.Sprintf("pleg was last seen active %s ago; threshold %s",
		duration.HumanDuration(idle), duration.HumanDuration(g.opts.RelistThreshold))
	if g.state.LastError != "" {
		msg += "; last error: " + g.state.LastError
	}
	return false, errors.New(msg)
}

// Pods returns the pods of the runtime, ordered by UID. It returns false before the first
// list.
func (g *Generator) Pods() ([]*Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.listed.IsZero() {
		return nil, false
	}
	return g.records.snapshot(), true
}

// Pod returns the pod with a UID, or nil if the runtime has none. It returns false before the first list, and while the
// exit codes of a new pod are being requested.
func (g *Generator) Pod(uid types.UID) (*Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.listed.IsZero() || g.unread[uid] {
		return nil, false
	}
	if rec := g.records.pods[uid]; rec != nil {
		return rec.pod(), true
	}
	return nil, true
}

// Status is the status of a generator.
type Status struct {
	// Evented means that the events of the runtime announce its changes: one did, and no list showed a change without an
	// event since. If not, StreamError says why. Lists show all changes in any case.
	Evented     bool
	StreamError string
	// Pods and Containers count the pods and containers of the runtime, without sandboxes.
	Pods, Containers int
	// LastRelist is the time at which the last successful list was requested. LastError is the error of the last list; empty
	// if it succeeded.
	LastRelist *time.Time
	LastError  string
	// Relists counts the lists, RelistErrors the failed lists. P50 and P99 are percentiles of the duration of the last
	// lists.
	Relists, RelistErrors int64
	P50, P99              time.Duration
	// Received counts the events from the runtime, Events the emitted events. Fallbacks counts how often Evented ended: the
	// stream broke, or missed a change.
	Received, Fallbacks int64
	Events              map[PodLifeCycleEventType]int64
}

// Status returns the status of the generator.
func (g *Generator) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.state
	status := s.Status
	status.Pods, status.Events = len(g.records.pods), maps.Clone(s.Events)
	if s.Evented {
		status.StreamError = ""
	}
	if at := s.listed; !at.IsZero() {
		status.LastRelist = &at
	}
	for _, rec := range g.records.pods {
		for _, k := range rec.containers {
			if !k.Sandbox {
				status.Containers++
			}
		}
	}
	if n := len(s.durations); n > 0 {
		sorted := slices.Sorted(slices.Values(s.durations))
		status.P50, status.P99 = sorted[n/2], sorted[min(n-1, n*99/100)]
	}
	return status
}

type metrics struct {
	relists                     prometheus.Histogram
	relistErrors, inspectErrors prometheus.Counter
	fallbacks, dropped, missed  prometheus.Counter
	events                      *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, g *Generator) *metrics {
	in := metric.In(reg, "pleg")
	in.GaugeFunc("healthy", "1 if the runtime answered within --pleg-relist-threshold, else 0.", func() float64 {
		healthy, _ := g.Healthy()
		return metric.Bool(healthy)
	})
	in.GaugeFunc("evented", "1 while the events of the runtime announce its changes, else 0: then only lists show them.", func() float64 { return metric.Bool(g.Status().Evented) })
	in.GaugeFunc("pods", "Number of pods in the runtime.", func() float64 { return float64(g.Status().Pods) })
	in.GaugeFunc("containers", "Number of containers in the runtime, without sandboxes.", func() float64 { return float64(g.Status().Containers) })
	return &metrics{
		relists:       in.Histogram("relist_duration_seconds", "Duration of lists of the runtime in seconds.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		relistErrors:  in.Counter("relist_errors_total", "Number of failed lists of the runtime."),
		inspectErrors: in.Counter("inspect_errors_total", "Number of failed inspections of pods."),
		fallbacks:     in.Counter("fallbacks_total", "Number of times that the event stream of the runtime broke, or missed a change, after its events announced changes."),
		dropped:       in.Counter("dropped_events_total", "Number of events of the runtime that were dropped because too many were waiting. A list has their changes."),
		missed:        in.Counter("unannounced_changes_total", "Number of changes that a list of the runtime showed, and that no event announced although the event stream was open."),
		events: in.CounterVec("events_total", "Number of emitted events, by type.", "type",
			string(ContainerStarted), string(ContainerDied), string(ContainerRemoved), string(PodSync), string(ContainerChanged)),
	}
}
