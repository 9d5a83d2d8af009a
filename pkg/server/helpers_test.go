package server

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Limits of pkg/server/conn and pkg/server/rpc that tests reach.
const (
	openCallsPerStream = 3
	fewestOpenCalls    = 64
	connectsAtOnce     = 256
	callsToRefuse      = 250
	refusalsOfScrapes  = 8
	longestText        = 256
	messagePrefix      = 5
)

func TestMain(m *testing.M) {
	testutil.Parallel(8) // those that are parallel mostly wait
	goleak.VerifyTestMain(m)
}

// daemon is a journal with a server on a socket, and the Pods API on another.
type daemon struct {
	journal      *journal.Journal
	socket, pods string
	http         *http.Client
	server       *Server
	limits       *conn.Limiter
	sick         atomic.Pointer[string]
}

// fallSick makes the daemon's checks fail.
func (d *daemon) fallSick(why string) { d.sick.Store(&why) }

func (d *daemon) check() error {
	if why := d.sick.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

func (d *daemon) ready() error {
	if len(d.journal.Unseen()) > 0 {
		return errors.New("not seen yet: file")
	}
	return d.check()
}

func serveJournal(t *testing.T, opts journal.Options) *daemon {
	t.Helper()
	return serveWithLimits(t, opts, conn.Limits{})
}

// errStopped is the cause with which tests stop a server.
var errStopped = errors.New("the test has ended")

// endsWithin is how long the server may take to end, in addition to DrainTimeout, on a
// busy machine.
const endsWithin = time.Minute

// serveWithLimits serves a journal. change may change other options of the server. What a test holds open must not
// end while the machine is slow, so lists and calls have an hour, if the limits say nothing else.
func serveWithLimits(t *testing.T, opts journal.Options, limits conn.Limits, change ...func(*Options)) *daemon {
	t.Helper()
	limits.ListTimeout = cmp.Or(limits.ListTimeout, time.Hour)
	registry := prometheus.NewRegistry()
	opts.Registerer = registry
	if opts.Sources == nil {
		opts.Sources = []string{"file"}
	}
	dir := testutil.ShortDir(t)
	d := &daemon{journal: journal.New(opts), socket: filepath.Join(dir, "s.sock"), pods: filepath.Join(dir, "p.sock")}
	listen := func(path string) net.Listener {
		l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: path, Mode: 0o600})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	options := Options{
		Journal: d.journal, Status: d.journal.Status, Version: map[string]string{"version": "test"},
		Live:  []Check{{Name: "syncloop", Check: d.check}},
		Ready: []Check{{Name: "sources", Check: d.ready}}, Registerer: registry, Gatherer: registry, Limits: limits,
	}
	for _, f := range change {
		f(&options)
	}
	server := New(options)
	d.server, d.limits = server, server.limits
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	socket, pods := listen(d.socket), listen(d.pods)
	go func() { done <- server.Run(ctx, socket) }()
	go func() { done <- server.RunPodsAPI(ctx, pods) }()
	transport := unixTransport(d.socket)
	d.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		start := time.Now()
		cancel(errStopped)
		for range 2 {
			if err := <-done; !errors.Is(err, errStopped) {
				t.Errorf("Run returned %v", err)
			}
		}
		if took := time.Since(start); took > conn.DrainTimeout+endsWithin {
			t.Errorf("Run took %v to end", took)
		}
	})
	return d
}

func unixTransport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
}

// add appends a pod with the size, as one update.
func (d *daemon) add(name string, size int) {
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{"size": strings.Repeat("x", size)},
	}}}})
}

func (d *daemon) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	return d.request(t, http.MethodGet, path)
}

func (d *daemon) request(t *testing.T, method, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return roundTrip(t, d.http, req)
}

// roundTrip sends a request, and returns the answer.
func roundTrip(t *testing.T, client *http.Client, r *http.Request) (code int, body string) {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// subscriber reads the stream, line by line.
type subscriber struct {
	body    io.ReadCloser
	scanner *bufio.Scanner
}

func (d *daemon) read(t *testing.T, query string) *subscriber {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1alpha1/updates"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != v1alpha1.ContentType {
		t.Fatalf("status %s, content type %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	r := &subscriber{resp.Body, bufio.NewScanner(resp.Body)}
	r.scanner.Buffer(nil, 64<<20)
	return r
}

func (r *subscriber) next(t *testing.T) *v1alpha1.Update {
	t.Helper()
	if !r.scanner.Scan() {
		t.Fatalf("the stream ended: %v", r.scanner.Err())
	}
	u := new(v1alpha1.Update)
	if err := json.Unmarshal(r.scanner.Bytes(), u); err != nil {
		t.Fatalf("%v in %s", err, r.scanner.Bytes())
	}
	return u
}

func (r *subscriber) expect(t *testing.T, op v1alpha1.Op, pods ...string) *v1alpha1.Update {
	t.Helper()
	u := r.next(t)
	var names []string
	for _, p := range u.Pods {
		names = append(names, p.Name)
	}
	if u.Op != op || fmt.Sprint(names) != fmt.Sprint(pods) {
		t.Fatalf("got %s %v, want %s %v", u.Op, names, op, pods)
	}
	return u
}

func (d *daemon) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// allOperations returns the operations of the stream.
func allOperations() (all []podconfigd.Operation) {
	for number := range podconfigd.Operation_name {
		if number != 0 {
			all = append(all, podconfigd.Operation(number))
		}
	}
	return all
}
