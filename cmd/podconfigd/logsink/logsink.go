// Package logsink writes a log without ever blocking the program:
//
//	sink := logsink.New(os.Stderr, logsink.DefaultSize)
//	defer sink.Close(time.Second)
//	klog.SetOutput(sink)
//
// If the stream is slow, stuck or broken, log lines wait in a bounded queue. Lines that do not fit are dropped and counted.
// Each record becomes one printable line, so no text in a record can forge another line.
package logsink

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// DefaultSize is the maximum number of waiting log lines.
const DefaultSize = 1024

// Sink is an io.Writer that never waits and never fails.
type Sink struct {
	stream  io.Writer
	queue   chan []byte
	dropped atomic.Int64
	closed  chan struct{}
	done    chan struct{}
}

// New returns a sink for a stream, and starts its goroutine, which Close ends. At most size lines wait.
func New(stream io.Writer, size int) *Sink {
	s := &Sink{stream: stream, queue: make(chan []byte, size), closed: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// Write queues one record as one line, or drops it if the queue is full. It always succeeds.
func (s *Sink) Write(record []byte) (int, error) {
	select {
	case s.queue <- oneLine(record):
	default:
		s.dropped.Add(1)
	}
	return len(record), nil
}

// Dropped returns the number of dropped lines.
func (s *Sink) Dropped() int64 { return s.dropped.Load() }

// Close waits until the queued lines are written, for at most the limit. Then it abandons a stuck write.
func (s *Sink) Close(limit time.Duration) {
	close(s.closed)
	select {
	case <-s.done:
	case <-time.After(limit):
	}
}

func (s *Sink) run() {
	defer close(s.done)
	for {
		select {
		case line := <-s.queue:
			s.write(line)
		case <-s.closed:
			for len(s.queue) > 0 {
				s.write(<-s.queue)
			}
			return
		}
	}
}

func (s *Sink) write(line []byte) {
	if _, err := s.stream.Write(line); err != nil {
		s.dropped.Add(1) // a broken stream
	}
}

// oneLine returns a record as one printable line. A record has text that others chose, such as paths of requests, names of
// files and errors. A line break in it could forge another record.
//
// oneLine quotes values of several lines, and escapes everything else that is not printable as JSON does. In a JSON record,
// only values can have such characters, so the record stays equal.
func oneLine(record []byte) []byte {
	text, ended := strings.CutSuffix(string(record), "\n")
	if strings.Contains(text, "=<\n") {
		text = block.ReplaceAllStringFunc(text, quote)
	}
	text = printable.JSON(text, "")
	if ended {
		text += "\n"
	}
	return []byte(text)
}

// block matches a value of several lines as klog writes it: each line begins with a tab.
var block = regexp.MustCompile(`=<\n(\t[^\n]*\n)+ >`)

func quote(block string) string {
	lines := strings.TrimSuffix(strings.TrimPrefix(block, "=<\n\t"), "\n >")
	return "=" + strconv.Quote(strings.ReplaceAll(lines, "\n\t", "\n"))
}
