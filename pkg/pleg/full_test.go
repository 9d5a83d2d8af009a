package pleg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// unsent returns the number of events that the runtime could not send yet.
func (m *model) unsent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.stream)
}

// many returns a runtime with a pod of 200 running containers.
func many() *model {
	m := newModel(1)
	for i := range 200 {
		for _, to := range []State{StateCreated, StateRunning} {
			m.step("p", fmt.Sprintf("c%03d", i), to)
		}
	}
	return m
}

// A runtime may block if its events are not received. So they are received and emitted while a log line is not written.
func TestReceivingNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := many()
		log := &logBuffer{blocks: "The events of the runtime announce its changes", released: make(chan struct{})}
		r := readLogging(t, Options{Runtime: m}, log)
		pass(5 * time.Second)
		m.step("p", "c199", StateExited)
		pass(5 * time.Second) // the next list logs that it was announced
		r.take()
		for i := range 20 {
			m.step("p", fmt.Sprintf("c%03d", i), StateExited)
		}
		synctest.Wait()
		if n, s, got := m.unsent(), r.Status(), r.take(); n > 0 || len(got) < 20 || s.Fallbacks > 0 || s.Received != 21 {
			t.Errorf("%d events are not received, status %+v, events %q", n, s, got)
		}
		close(log.released)
		r.stop()
	})
}

// If too much waits, events are dropped. A list that is requested after that has the changes.
func TestTooManyEventsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m := many()
		r := read(t, Options{Runtime: m, Registerer: registry})
		pass(5 * time.Second)
		r.take()
		r.Generator.mu.Lock()
		r.most = 20
		r.Generator.mu.Unlock()
		r.mu.Lock()
		r.pause = 3 * DefaultRelistPeriod
		r.mu.Unlock()
		var want []string
		for i := range 200 {
			m.step("p", fmt.Sprintf("c%03d", i), StateExited)
			want = append(want, fmt.Sprintf("ContainerDied p/c%03d 4", i))
		}
		pass(2 * DefaultRelistPeriod)
		if n := m.unsent(); n > 0 {
			t.Errorf("%d events are not received", n)
		}
		r.mu.Lock()
		r.pause = 0
		r.mu.Unlock()
		pass(5 * DefaultRelistPeriod)
		got := r.take()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if s := r.Status(); s.Evented || s.Fallbacks == 0 || s.Received != 200 {
			t.Errorf("status %+v", s)
		}
		begin, relists := time.Now(), r.Status().Relists
		m.step("p", "c000", StateNone)
		synctest.Wait()
		if got := r.take(); len(got) != 1 || time.Since(begin) > 0 || r.Status().Relists > relists {
			t.Errorf("the next event: %q, status %+v", got, r.Status())
		}
		r.stop()
		if n := strings.Count(r.log.String(), "Only lists show the changes of the runtime"); n > 1 {
			t.Errorf("the log has it %d times:\n%s", n, r.log)
		}
		if n, err := testutil.GatherAndCount(registry, "podconfigd_pleg_dropped_events_total"); n != 1 || err != nil {
			t.Errorf("%d metrics, %v", n, err)
		}
		if n := testutil.ToFloat64(r.metrics.dropped); n < 100 || n >= 200 {
			t.Errorf("%v events were dropped", n)
		}
	})
}

// If nobody takes the emitted events, their number is bounded. The runtime's events are
// received all the same, and nothing is wrong after that.
func TestEmittedEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		g := New(Options{Runtime: m})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		pass(5 * time.Second)
		for i := range maxQueue {
			for _, to := range []State{StateCreated, StateRunning, StateExited, StateNone} {
				m.step("p", fmt.Sprint("c", i), to)
			}
			synctest.Wait()
		}
		m.step("p", "last", StateCreated)
		m.step("p", "last", StateRunning)
		pass(time.Hour)
		if ok, err := g.Healthy(); !ok {
			t.Error(err)
		}
		g.mu.Lock()
		waits := len(g.queue)
		g.mu.Unlock()
		if n := m.unsent(); n > 0 || waits > maxQueue+4 {
			t.Errorf("%d events are not received, %d wait", n, waits)
		}
		events := make([]*PodLifecycleEvent, 0, maxQueue)
		for len(events) == 0 || events[len(events)-1].ContainerID != "last" {
			select {
			case e := <-g.Watch():
				events = append(events, e)
			case <-time.After(time.Minute):
				t.Fatal("the last container never comes")
			}
		}
		pass(time.Minute)
		emitted(t, events)
		if s := g.Status(); s.Containers != 1 {
			t.Errorf("in the end: %+v", s)
		}
		cancel()
		<-done
	})
}
