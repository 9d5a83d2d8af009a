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

// stopInterval is the time from one change to the next: long enough for 100
// subscribers to have read the one before, so that what is measured is how late they
// are told and not how long they stand in line.
const stopInterval = 20 * time.Millisecond

// phase is how many changes are made before the subscriber is stopped, or goes on:
// what else the machine does meets both alike.
const phase = 25

// BenchmarkStoppedSubscriber measures how late 99 subscribers are told of a change
// while the hundredth reads, and while it is stopped with SIGSTOP, in turns. Each is a
// process, and so are agents. An op is 25 changes in either state. The ring is full
// before anything is measured, and the growth of the daemon's memory is that since.
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

// stoppable is a daemon with 99 subscribers that are measured and one that is stopped.
type stoppable struct {
	daemon  *podconfigd
	dir     *directory
	readers []*lineReader
	other   *process
	made    int
	// renamed is when each change was made that counts.
	renamed map[int]time.Duration
}

// lineReader is a subscriber in a process of its own.
type lineReader struct {
	notes *os.File
	rest  []byte
	ready bool
	// pods is how many changed pods it was told of.
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
		s.other = start(tb, buildLineReader, func(*exec.Cmd) {}, s.daemon.socket, path)
		s.readers = append(s.readers, &lineReader{notes: notes})
	}
	s.await(tb)
	s.readers = s.readers[:99]
	for i := range 3000 { // fills the ring
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
	s.renamed[s.made] = peer.Now() // a moment too early, rather than too late
	s.dir.put(tb, changer(s.made%changers, s.made))
}

// measure makes the changes of a phase and returns how late each subscriber was told of
// each.
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

// await waits until the readers have been told of every change, and returns how late
// they were told of those that count.
func (s *stoppable) await(tb testing.TB) []time.Duration {
	tb.Helper()
	var latencies []time.Duration
	deadline := time.Now().Add(patience)
	for i, r := range s.readers {
		for {
			latencies = append(latencies, r.read(tb, s.renamed)...)
			if r.ready && r.pods >= s.made {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatalf("of %d changes subscriber %d was told %d", s.made, i, r.pods)
			}
			pause(tb, 5*time.Millisecond)
		}
	}
	return latencies
}

// read reads what the subscriber noted since, and returns how late it was told of the
// changes in renamed.
func (r *lineReader) read(tb testing.TB, renamed map[int]time.Duration) []time.Duration {
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
