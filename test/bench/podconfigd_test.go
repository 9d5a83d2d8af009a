package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

const (
	// redial is the time between attempts to connect to a socket that does not exist yet.
	redial = 100 * time.Microsecond
)

// podconfigd is a daemon.
type podconfigd struct {
	*process
	socket string
	client *http.Client
}

// startPodconfigd runs the daemon on the directory, with defaults except for the
// arguments.
func startPodconfigd(tb testing.TB, dir *directory, args ...string) *podconfigd {
	tb.Helper()
	socket := filepath.Join(filepath.Dir(dir.path), "podconfigd.sock")
	p := start(tb, buildPodconfigd, func(*exec.Cmd) {}, append([]string{
		"--pod-manifest-path", dir.path, "--hostname-override", nodeName, "--socket", socket,
	}, args...)...)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &podconfigd{process: p, socket: socket, client: &http.Client{Transport: transport}}
}

// dial connects to a socket as soon as it exists.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(redial):
		}
	}
}

// get requests the path from the daemon. The caller closes the body.
func (p *podconfigd) get(ctx context.Context, tb testing.TB, path string) io.ReadCloser {
	tb.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podconfigd"+path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		tb.Fatalf("GET %s: %s", path, response.Status)
	}
	return response.Body
}

// metric returns the value of one of the daemon's metrics.
func (p *podconfigd) metric(tb testing.TB, name string) float64 {
	tb.Helper()
	body := p.get(tb.Context(), tb, "/metrics")
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				tb.Fatalf("the metric %s: %v", name, err)
			}
			return value
		}
	}
	tb.Fatalf("there is no metric %s (%v)", name, lines.Err())
	return 0
}

// subscriber reads the stream of updates.
type subscriber struct {
	lines *bufio.Reader
	// started is the start of the daemon's process.
	started time.Duration
}

// subscribe opens the stream.
func (p *podconfigd) subscribe(tb testing.TB) *subscriber {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	body := p.get(ctx, tb, "/v1alpha1/updates")
	tb.Cleanup(func() {
		cancel()
		_ = body.Close() // nothing more is read
	})
	return &subscriber{lines: bufio.NewReaderSize(body, peer.LongestLine), started: p.started}
}

// next reads and parses the next line.
func (s *subscriber) next() (peer.Event, error) {
	line, err := s.lines.ReadSlice('\n')
	at := peer.Now()
	if err != nil {
		return peer.Event{}, fmt.Errorf("reading the stream: %w", err)
	}
	event := peer.Glance(line)
	event.At, event.Started = at, s.started
	return event, nil
}

// untilReady reads the current state.
func (s *subscriber) untilReady() error {
	for {
		if event, err := s.next(); err != nil || event.Ready {
			return err
		}
	}
}
