package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// BenchmarkLines measures how fast 100 subscribers that only read get lines of the
// stream, without and with a label selector that selects every pod. The peer writes the same bytes to 100 unix sockets from as many goroutines,
// with one write per line.
func BenchmarkLines(b *testing.B) {
	const subscribers = 100
	line := lineOf(b, benchPod(0))
	for _, peer := range []struct {
		name  string
		query string
		start func(testing.TB, net.Listener) (change func(i int))
	}{
		{"podconfigd", "", startLines},
		{"podconfigd-with-a-selector", "?labelSelector=!absent", startLines},
		{"plain-write", "", startPlainWrites(line, subscribers)},
	} {
		b.Run(fmt.Sprintf("readers=%d/peer=%s", subscribers, peer.name), func(b *testing.B) {
			r := newLineSubscribers(b, peer.start, peer.query, subscribers)
			r.update(b, 10*paced)
			before, cpu, begin := r.made, processCPU(b), time.Now()
			for b.Loop() {
				r.update(b, 1)
			}
			r.settle(b, 0)
			took, deliveries := time.Since(begin), float64(r.made-before)*subscribers
			b.ReportMetric(deliveries/took.Seconds(), "deliveries/s")
			b.ReportMetric(deliveries*float64(len(line))/took.Seconds()/1e6, "MB/s")
			b.ReportMetric((processCPU(b)-cpu).Seconds()*1e6/deliveries, "cpu-µs/delivery")
		})
	}
}

// lineOf returns the line of an update with the pod.
func lineOf(tb testing.TB, pod *v1.Pod) []byte {
	tb.Helper()
	j := journal.New(journal.Options{Sources: []string{config.FileSource}})
	since := j.State().Revision
	cursor := view.Stream(j, view.StreamOptions{Since: &since})
	defer cursor.Close()
	j.Append(config.PodUpdate{Op: config.UPDATE, Source: config.FileSource, Pods: []*v1.Pod{pod}})
	frames, err := cursor.Next(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	line, err := wire.AppendLine(nil, frames[0])
	if err != nil {
		tb.Fatal(err)
	}
	return line
}

// lineSubscribers are subscribers that count lines.
type lineSubscribers struct {
	change    func(i int)
	made      int
	delivered []atomic.Int64
	news      chan struct{}
	failures  chan error
}

func newLineSubscribers(tb testing.TB, start func(testing.TB, net.Listener) func(int), query string, subscribers int) *lineSubscribers {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "lines.sock")
	l, err := new(net.ListenConfig).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	r := &lineSubscribers{delivered: make([]atomic.Int64, subscribers), news: make(chan struct{}, 1), failures: make(chan error, subscribers)}
	r.change = start(tb, l)
	var running, ready sync.WaitGroup
	tb.Cleanup(running.Wait)
	for i := range subscribers {
		conn, err := new(net.Dialer).DialContext(tb.Context(), "unix", socket)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close() })
		ready.Add(1)
		running.Go(func() { r.failures <- r.read(conn, query, &r.delivered[i], sync.OnceFunc(ready.Done)) })
	}
	ready.Wait()
	for i := range r.delivered {
		r.delivered[i].Store(0)
	}
	return r
}

// read opens the stream and counts the lines.
func (r *lineSubscribers) read(conn net.Conn, query string, delivered *atomic.Int64, ready func()) error {
	if _, err := fmt.Fprintf(conn, "GET /v1alpha1/updates%s HTTP/1.1\r\nHost: localhost\r\n\r\n", query); err != nil {
		return err
	}
	update, bookmark := []byte(`"op":"UPDATE"`), []byte(`"op":"BOOKMARK"`)
	buffer, kept := make([]byte, 64<<10), 0
	for {
		n, err := conn.Read(buffer[kept:])
		if err != nil {
			return err
		}
		n += kept
		updates := int64(bytes.Count(buffer[:n], update))
		if bytes.Contains(buffer[:n], bookmark) {
			ready()
		}
		// The end may be the start of the next update.
		kept = copy(buffer, buffer[max(0, n-len(update)+1):n])
		if updates == 0 {
			continue
		}
		delivered.Add(updates)
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

func (r *lineSubscribers) update(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		r.settle(tb, paced-1)
		r.change(r.made)
		r.made++
	}
}

// settle waits until every subscriber has at most underWay lines left to read.
func (r *lineSubscribers) settle(tb testing.TB, underWay int) {
	tb.Helper()
	awaitDeliveries(tb, r.delivered, int64(r.made-underWay), r.news, r.failures)
}

// awaitDeliveries waits until each has enough deliveries.
func awaitDeliveries(tb testing.TB, delivered []atomic.Int64, enough int64, news <-chan struct{}, failures <-chan error) {
	tb.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for i := range delivered {
		for delivered[i].Load() < enough {
			select {
			case <-news:
			case err := <-failures:
				tb.Fatal(err)
			case <-timeout.C:
				tb.Fatalf("subscriber %d has %d of %d updates after %v", i, delivered[i].Load(), enough, patience)
			}
		}
	}
}

func startLines(tb testing.TB, l net.Listener) func(int) {
	tb.Helper()
	pod := benchPod(0)
	updates := serveJournal(tb, l, (*server.Server).Run, []*v1.Pod{pod})
	return func(int) {
		next := *pod
		updates.Append(config.PodUpdate{Op: config.UPDATE, Source: config.FileSource, Pods: []*v1.Pod{&next}})
	}
}

// serveJournal serves a journal with these pods until the test ends.
func serveJournal(tb testing.TB, l net.Listener, run func(*server.Server, context.Context, net.Listener) error, pods []*v1.Pod) *journal.Journal {
	tb.Helper()
	updates := journal.New(journal.Options{Sources: []string{config.FileSource}})
	updates.Append(config.PodUpdate{Op: config.ADD, Source: config.FileSource, Pods: pods})
	s := server.New(server.Options{Journal: updates, Limits: conn.Limits{Subscribers: 4096, SubscribersPerPeer: 4096}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(s, ctx, l); !errors.Is(err, context.Canceled) {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { cancel(); running.Wait() })
	return updates
}

// startPlainWrites returns a function that writes the line to every connection, once for
// each change.
func startPlainWrites(line []byte, subscribers int) func(testing.TB, net.Listener) func(int) {
	return func(tb testing.TB, l net.Listener) func(int) {
		tb.Helper()
		return plainWriters(tb, l, line, subscribers)
	}
}

func plainWriters(tb testing.TB, l net.Listener, line []byte, subscribers int) func(int) {
	tb.Helper()
	var running sync.WaitGroup
	var mu sync.Mutex
	var lines []chan struct{}
	running.Go(func() {
		for range subscribers {
			conn, err := l.Accept()
			if err != nil {
				tb.Error(err)
				return
			}
			changes := make(chan struct{}, paced)
			mu.Lock()
			lines = append(lines, changes)
			mu.Unlock()
			running.Go(func() { plainWrites(tb, conn, changes, line) })
		}
	})
	tb.Cleanup(func() {
		for _, changes := range lines {
			close(changes)
		}
		running.Wait()
		_ = l.Close()
	})
	return func(int) {
		for _, changes := range lines {
			changes <- struct{}{}
		}
	}
}

func plainWrites(tb testing.TB, conn net.Conn, changes <-chan struct{}, line []byte) {
	tb.Helper()
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1024)); err != nil && !errors.Is(err, io.EOF) { // the request
		tb.Error(err)
		return
	}
	if _, err := io.WriteString(conn, `"op":"BOOKMARK"`); err != nil {
		tb.Error(err)
		return
	}
	for range changes {
		if _, err := conn.Write(line); err != nil {
			tb.Error(err)
			return
		}
	}
}
