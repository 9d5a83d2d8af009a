package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// stopInterval is the time from one change to the next: long enough for 100
// subscribers to have read the one before, so that what is measured is how late they
// are told and not how long they stand in line.
const stopInterval = 4 * time.Millisecond

// phase is how many changes are made before the subscriber is stopped, or goes on:
// what else the machine does meets both alike.
const phase = 50

// BenchmarkStoppedSubscriber measures how late 99 subscribers are told of a change
// while the hundredth reads, and while it is stopped with SIGSTOP, in turns. Each op is
// 50 changes in either state. The ring is full before anything is measured, and the
// growth of the daemon's memory is that since.
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

// stoppable is a daemon with 99 subscribers that are measured and one in a process of
// its own.
type stoppable struct {
	daemon *podconfigd
	dir    *directory
	other  *exec.Cmd
	made   int

	mu sync.Mutex
	// counts is how many changes each has been told of, renamed is when each was made, and
	// latencies is what was measured since.
	counts    [99]int
	renamed   map[int]time.Duration
	latencies []time.Duration
	told      chan struct{}
}

func newStoppable(tb testing.TB) *stoppable {
	tb.Helper()
	s := &stoppable{dir: newDirectory(tb), renamed: make(map[int]time.Duration), told: make(chan struct{}, 1)}
	for i := range changers {
		s.dir.put(tb, changer(i, 0))
	}
	s.daemon = startPodconfigd(tb, s.dir)
	var readers sync.WaitGroup
	tb.Cleanup(readers.Wait) // after the subscribers are closed
	for i := range s.counts {
		subscriber := s.daemon.subscribe(tb)
		if err := subscriber.untilReady(); err != nil {
			tb.Fatal(err)
		}
		readers.Go(func() { s.read(i, subscriber) })
	}
	socket := filepath.Join(filepath.Dir(s.dir.path), "podconfigd.sock")
	s.other = exec.CommandContext(tb.Context(), "curl", "-sN", "-o", "/dev/null", "--unix-socket", socket, "http://localhost/v1alpha1/updates")
	if err := s.other.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = s.other.Process.Kill()
		_ = s.other.Wait() // it was killed
	})
	for i := range 3000 { // fills the ring
		if s.change(tb); i%window == 0 {
			s.await(tb)
		}
	}
	return s
}

func (s *stoppable) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := s.other.Process.Signal(signal); err != nil {
		tb.Fatal(err)
	}
}

// read notes how late the subscriber is told.
func (s *stoppable) read(i int, subscriber *subscriber) {
	for {
		event, err := subscriber.next()
		if err != nil {
			return // it is closed
		}
		version, err := strconv.Atoi(event.Version)
		if event.Op != "UPDATE" || err != nil {
			continue
		}
		s.mu.Lock()
		s.counts[i] += event.Pods
		if renamed, ok := s.renamed[version]; ok {
			s.latencies = append(s.latencies, event.At-renamed)
		}
		s.mu.Unlock()
		select {
		case s.told <- struct{}{}:
		default:
		}
	}
}

// change changes the next manifest.
func (s *stoppable) change(tb testing.TB) {
	tb.Helper()
	s.made++
	s.mu.Lock()
	s.renamed[s.made] = peer.Now() // a moment too early, rather than too late
	s.mu.Unlock()
	s.dir.put(tb, changer(s.made%changers, s.made))
}

// measure makes the changes of a phase and returns how late each subscriber was told of
// each.
func (s *stoppable) measure(tb testing.TB) []time.Duration {
	tb.Helper()
	s.mu.Lock()
	s.latencies = nil
	clear(s.renamed)
	s.mu.Unlock()
	for range phase {
		s.change(tb)
		pause(tb, stopInterval)
	}
	s.await(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latencies
}

// await waits until the 99 have been told of every change.
func (s *stoppable) await(tb testing.TB) {
	tb.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !s.allHave(s.made) {
		select {
		case <-s.told:
		case <-timeout.C:
			tb.Fatalf("of %d changes the subscribers were told %v", s.made, s.counts)
		}
	}
}

func (s *stoppable) allHave(changes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Min(s.counts[:]) >= changes
}
