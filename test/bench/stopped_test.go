package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// stopInterval is the time between changes. In this time, 100 subscribers can read the
// previous change. So the result is the delay of a change, not the length of a queue.
const stopInterval = 20 * time.Millisecond

// phase is the number of changes before the subscriber is stopped or continued. So other
// work on the machine affects both states equally.
const phase = 25

// BenchmarkStoppedSubscriber measures the delay of a change at 99 subscribers while the
// hundredth reads, and while it is stopped with SIGSTOP, in turns. Each is a process,
// like an agent. An op is 25 changes in either state. The ring is full before the
// measurement, and the growth of the daemon's memory is measured from then on.
func BenchmarkStoppedSubscriber(b *testing.B) {
	s := newStoppable(b)
	b.Run("subscribers=100", func(b *testing.B) {
		memory := s.daemon.memory(b, "VmRSS")
		var reading, stopped []time.Duration
		for b.Loop() {
			reading = append(reading, s.measure(b)...)
			s.signal(b, syscall.SIGSTOP)
			stopped = append(stopped, s.measure(b)...)
			s.signal(b, syscall.SIGCONT)
			pause(b, 100*time.Millisecond) // it catches up
		}
		for state, latencies := range map[string][]time.Duration{"reading": reading, "stopped": stopped} {
			slices.Sort(latencies)
			for _, percentile := range []int{50, 99} {
				at := latencies[len(latencies)*percentile/100]
				b.ReportMetric(float64(at.Microseconds()), fmt.Sprintf("p%d-µs-%s", percentile, state))
			}
		}
		b.ReportMetric((s.daemon.memory(b, "VmRSS")-memory)/(1<<20), "grown-MiB")
		b.ReportMetric(0, "ns/op") // it is the interval
	})
}

// stoppable is a daemon with 99 measured subscribers and one that is stopped.
type stoppable struct {
	daemon      *podconfigd
	dir         *directory
	subscribers []*lineSubscriber
	other       *process
	made        int
	// renamed has the time of each measured change.
	renamed map[int]time.Duration
}

// lineSubscriber is a subscriber in its own process.
type lineSubscriber struct {
	notes *os.File
	rest  []byte
	ready bool
	// pods is the number of changed pods that it has read.
	pods int
}

func newStoppable(tb testing.TB) *stoppable {
	tb.Helper()
	s := &stoppable{dir: newDirectory(tb), renamed: make(map[int]time.Duration)}
	for i := range changers {
		s.dir.put(tb, changer(i, 0))
	}
	s.daemon = startPodconfigd(tb, s.dir, "--max-subscribers-per-process=1")
	for i := range 100 {
		path := filepath.Join(tb.TempDir(), fmt.Sprint(i))
		notes, err := os.Create(path)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { notes.Close() })
		s.other = start(tb, buildLineSubscriber, func(*exec.Cmd) {}, s.daemon.socket, path)
		s.subscribers = append(s.subscribers, &lineSubscriber{notes: notes})
	}
	s.await(tb)
	s.subscribers = s.subscribers[:99]
	for i := range 3000 { // to fill the ring
		if s.change(tb); i%window == 0 {
			s.await(tb)
		}
	}
	return s
}

func (s *stoppable) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := syscall.Kill(s.other.pid, signal); err != nil {
		tb.Fatal(err)
	}
}

// change changes the next manifest.
func (s *stoppable) change(tb testing.TB) {
	tb.Helper()
	s.made++
	s.renamed[s.made] = peer.Now() // a moment too early, not too late
	s.dir.put(tb, changer(s.made%changers, s.made))
}

// measure makes the changes of a phase and returns the delay of each at each subscriber.
func (s *stoppable) measure(tb testing.TB) []time.Duration {
	tb.Helper()
	s.await(tb)
	clear(s.renamed)
	for range phase {
		s.change(tb)
		pause(tb, stopInterval)
	}
	return s.await(tb)
}

// await waits until the subscribers have every change, and returns the delays of the
// measured ones.
func (s *stoppable) await(tb testing.TB) []time.Duration {
	tb.Helper()
	var latencies []time.Duration
	deadline := time.Now().Add(patience)
	for i, r := range s.subscribers {
		for {
			latencies = append(latencies, r.read(tb, s.renamed)...)
			if r.ready && r.pods >= s.made {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatalf("subscriber %d has %d of %d changes", i, r.pods, s.made)
			}
			pause(tb, 5*time.Millisecond)
		}
	}
	return latencies
}

// read reads the new notes of the subscriber, and returns the delays of the changes in
// renamed.
func (r *lineSubscriber) read(tb testing.TB, renamed map[int]time.Duration) []time.Duration {
	tb.Helper()
	more, err := io.ReadAll(r.notes)
	if err != nil {
		tb.Fatal(err)
	}
	r.rest = append(r.rest, more...)
	var latencies []time.Duration
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return latencies
		}
		r.rest = rest
		var pods, version int
		var at time.Duration
		if _, err := fmt.Sscan(string(line), &pods, &version, &at); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		r.ready = true
		r.pods += pods
		if when, ok := renamed[version]; ok && pods > 0 {
			latencies = append(latencies, at-when)
		}
	}
}
