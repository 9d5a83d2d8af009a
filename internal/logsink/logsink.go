// Package logsink writes a log without ever blocking the program:
//
//	sink := logsink.New(os.Stderr, logsink.DefaultSize, func(lines int64) { klog.InfoS("Dropped log lines", "lines", lines) })
//	defer sink.Close(time.Second)
//	klog.SetOutput(sink)
//
// If the stream is slow, stuck or broken, log lines wait in a bounded queue. Lines that do not fit are dropped and counted.
// Each record becomes one printable line, so no text in a record can forge another line.
package logsink

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/internal/await"
)

// DefaultSize is the maximum size in bytes of waiting log lines.
const DefaultSize = 256 << 10

// Sink is an io.Writer that never waits and never fails.
type Sink struct {
	stream    io.Writer
	size      int
	onDropped func(lines int64)

	// dropped counts all dropped lines, lost the dropped lines that are not reported yet.
	dropped, lost atomic.Int64
	// noting means that the current line reports dropped lines. It always fits.
	noting atomic.Bool

	// mu guards the fields below.
	mu     sync.Mutex
	queue  [][]byte
	queued int
	closed bool
	wake   chan struct{}
	done   chan struct{}
}

// New returns a sink for a stream, and starts its goroutine, which Close ends. At most size bytes of lines wait. If lines were
// dropped, onDropped is called with their number after the next line is written. onDropped may write a line to the sink. That
// line follows the waiting ones.
func New(stream io.Writer, size int, onDropped func(lines int64)) *Sink {
	s := &Sink{stream: stream, size: size, onDropped: onDropped, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write queues one record as one line, or drops it if the queue is full. It always succeeds.
func (s *Sink) Write(record []byte) (int, error) {
	line := oneLine(record)
	s.mu.Lock()
	fits := s.noting.Load() || (!s.closed && s.queued+len(line) <= s.size)
	if fits {
		s.queue = append(s.queue, line)
		s.queued += len(line)
	}
	s.mu.Unlock()
	if !fits {
		s.drop()
	}
	s.notify()
	return len(record), nil
}

// Dropped returns the number of dropped lines.
func (s *Sink) Dropped() int64 { return s.dropped.Load() }

// Close waits until the queued lines are written, for at most the limit. Then it abandons a stuck write.
func (s *Sink) Close(limit time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.notify()
	select {
	case <-s.done:
	case <-time.After(limit):
	}
}

func (s *Sink) drop() {
	s.dropped.Add(1)
	s.lost.Add(1)
}

func (s *Sink) notify() {
	await.Signal(s.wake)
}

func (s *Sink) run() {
	defer close(s.done)
	for {
		line, closed := s.next()
		switch {
		case line == nil && closed:
			return
		case line == nil:
			<-s.wake
			continue
		}
		if _, err := s.stream.Write(line); err != nil {
			s.drop() // a broken stream
			continue
		}
		if lost := s.lost.Swap(0); lost > 0 {
			s.noting.Store(true)
			s.onDropped(lost)
			s.noting.Store(false)
		}
	}
}

func (s *Sink) next() (line []byte, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue = nil
		return nil, s.closed
	}
	line, s.queue = s.queue[0], s.queue[1:]
	s.queued -= len(line)
	return line, s.closed
}
