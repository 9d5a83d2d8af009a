package bench

import (
	"bufio"
	"bytes"
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
	// longestLine bounds a line of the stream: a frame carries about 1 MiB of pods as
	// protobuf, and the JSON of these is less than twice that.
	longestLine = 2 << 20
	// headerLength is within what a line's fields before its pods take.
	headerLength = 256
	// redial is the time between attempts to connect to a socket that is not there yet.
	redial = 100 * time.Microsecond
)

// podconfigd is a daemon.
type podconfigd struct {
	*process
	client *http.Client
}

// startPodconfigd runs the daemon on the directory, with defaults otherwise.
func startPodconfigd(tb testing.TB, dir *directory) *podconfigd {
	tb.Helper()
	socket := filepath.Join(filepath.Dir(dir.path), "podconfigd.sock")
	p := start(tb, buildPodconfigd, func(*exec.Cmd) {},
		"--pod-manifest-path", dir.path, "--hostname-override", nodeName, "--socket", socket)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &podconfigd{process: p, client: &http.Client{Transport: transport}}
}

// dial connects to a socket as soon as it is there.
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

// get asks the daemon for what is at the path. The caller closes it.
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
	daemon *podconfigd
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// subscribe opens the stream.
func (p *podconfigd) subscribe(tb testing.TB) *subscriber {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	body := p.get(ctx, tb, "/v1alpha1/updates")
	tb.Cleanup(func() {
		cancel()
		_ = body.Close() // there is nothing more to read
	})
	return &subscriber{daemon: p, lines: bufio.NewReaderSize(body, longestLine), cancel: cancel}
}

// next returns the next line, which is good until the next call, and the moment at
// which all of it was there.
func (s *subscriber) next() (line, time.Duration, error) {
	data, err := s.lines.ReadSlice('\n')
	at := peer.Now()
	if err != nil {
		return nil, 0, fmt.Errorf("reading the stream: %w", err)
	}
	return data, at, nil
}

// line is one line of the stream. To decode it would take longer than what is
// measured, so it is looked at as bytes.
type line []byte

func (l line) is(op string) bool { return l.header(`"op":"` + op + `"`) }

// ready tells whether the line is the bookmark that says that all sources are seen.
func (l line) ready() bool { return l.is("BOOKMARK") && l.header(`"ready":true`) }

func (l line) header(field string) bool {
	return bytes.Contains(l[:min(len(l), headerLength)], []byte(field))
}

func (l line) pods() int { return bytes.Count(l, []byte(`"kind":"Pod"`)) }

func (l line) hasVersion(version string) bool {
	return bytes.Contains(l, []byte(`"`+peer.VersionAnnotation+`":"`+version+`"`))
}

// first waits until the daemon is ready, and returns how many pods it told until
// then, and how long after the start of the process that was.
func (s *subscriber) first(tb testing.TB) (pods int, took time.Duration) {
	tb.Helper()
	defer time.AfterFunc(patience, s.cancel).Stop()
	for {
		line, at, err := s.next()
		if err != nil {
			tb.Fatal(err)
		}
		if line.ready() {
			return pods, at - s.daemon.started
		}
		pods += line.pods()
	}
}

// await waits for the ADD of that version and returns the moment at which it was
// there.
func (s *subscriber) await(tb testing.TB, version string) time.Duration {
	tb.Helper()
	defer time.AfterFunc(patience, s.cancel).Stop()
	for {
		line, at, err := s.next()
		if err != nil {
			tb.Fatal(err)
		}
		if line.is("ADD") && line.hasVersion(version) {
			return at
		}
	}
}

func (s *subscriber) stop() {
	s.cancel()
	s.daemon.stop()
}
