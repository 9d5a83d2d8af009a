package pleg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// keptDurations is of how many relists the status knows how long they took.
const keptDurations = 512

// generatorState is what the generator knows of itself.
type generatorState struct {
	started time.Time
	// listed is when the last list was asked for that came.
	listed time.Time
	// active is when the runtime was last asked something that it answered.
	active time.Time
	// lastError is of the last list or ping; empty if that went well.
	lastError string

	// evented: events can be relied on, and lists are rare. They can from the first
	// list on that was asked for after opened, which is zero where there is no stream.
	evented           bool
	opened            time.Time
	streamError       string
	saidUnimplemented bool

	relists, relistErrors, received, fallbacks int64
	events                                     map[PodLifeCycleEventType]int64
	durations                                  []time.Duration
}

// relist takes note of a list.
func (s *generatorState) relist(begin, end time.Time, err error) {
	s.relists++
	if len(s.durations) == keptDurations {
		s.durations = s.durations[1:]
	}
	s.durations = append(s.durations, end.Sub(begin))
	if err != nil {
		s.relistErrors++
		s.lastError = err.Error()
		return
	}
	s.lastError = ""
	s.listed, s.active = begin, begin
	if !s.opened.IsZero() && !begin.Before(s.opened) {
		s.evented = true
	}
}

// ping takes note of the answer to a ping.
func (s *generatorState) ping(begin time.Time, err error) {
	if err != nil {
		s.lastError = err.Error()
		return
	}
	s.active = begin
}

// Healthy says whether the runtime answered of late. It has from the start for as
// long as the threshold to do so.
//
// kubelet: pkg/kubelet/pleg/generic.go Healthy, which is unhealthy until the first
// list.
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
	if g.state.lastError != "" {
		msg += "; the runtime's last error: " + g.state.lastError
	}
	return false, errors.New(msg)
}

// Pods returns the pods that the runtime has, by UID.
func (g *Generator) Pods() ([]*Pod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.listed.IsZero() {
		return nil, false
	}
	return g.records.snapshot(), true
}

// Status is what a generator says of itself.
type Status struct {
	// Evented: the runtime's own events are relied on. If not, StreamError says why
	// there are none.
	Evented     bool
	StreamError string
	// Pods and Containers count what the runtime has, sandboxes not among the latter.
	Pods, Containers int
	// LastRelist is when the last list that came was asked for, LastError what the
	// runtime said when it failed last, if it has not answered since.
	LastRelist *time.Time
	LastError  string
	// Relists and RelistErrors count lists, P50 and P99 are how long the last ones took.
	Relists, RelistErrors int64
	P50, P99              time.Duration
	// Received counts the runtime's own events, Events those that were made, and
	// Fallbacks how often the stream broke that had been relied on.
	Received, Fallbacks int64
	Events              map[PodLifeCycleEventType]int64
}

// Status returns what the generator has to say of itself.
func (g *Generator) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.state
	status := Status{
		Evented: s.evented, StreamError: s.streamError, Pods: len(g.records.pods), LastError: s.lastError,
		Relists: s.relists, RelistErrors: s.relistErrors,
		Received: s.received, Fallbacks: s.fallbacks, Events: maps.Clone(s.events),
	}
	if s.evented {
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
