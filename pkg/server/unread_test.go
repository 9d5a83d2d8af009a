package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// unreadCall makes a call of gRPC whose answer can't be sent: the client's window is
// shut. It returns once the answer is under way.
func unreadCall(t *testing.T, conn net.Conn, method string, message []byte, fields ...[2]string) *http2.Framer {
	t.Helper()
	framer, err := tryUnreadCall(t, conn, method, message, fields...)
	if err != nil {
		t.Fatalf("%s: no answer: %v", method, err)
	}
	return framer
}

// tryUnreadCall is unreadCall for a call that may end before its answer. The error is that of reading.
func tryUnreadCall(t *testing.T, conn net.Conn, method string, message []byte, fields ...[2]string) (*http2.Framer, error) {
	t.Helper()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, f := range append([][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	}, fields...) {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	framer := http2.NewFramer(&out, conn)
	out.WriteString(http2.ClientPreface)
	for _, err := range []error{
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, append([]byte{0, 0, 0, 0, byte(len(message))}, message...)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(testutil.Patience))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		if _, ok := frame.(*http2.HeadersFrame); ok {
			return http2.NewFramer(conn, conn), nil
		}
	}
}

// listed waits until the only place for a list can be had again.
func (d *daemon) listed(t *testing.T, after string) {
	t.Helper()
	testutil.Until(t, after+", and the place is given back", func() bool {
		resp, err := d.http.Head("http://localhost/pods")
		if err != nil {
			return false // it took more than the time that lists have in these tests
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

var bigCalls = []string{"/podconfigd.v1alpha1.PodConfig/List", "/podconfigd.v1alpha1.PodConfig/Status", "/v1alpha1.Pods/ListPods"}

// A list of gRPC that nobody reads is under way until it is read, or given up.
func TestListsOfGRPCThatNobodyReads(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Lists: 1})
	d.add("a", 1)
	for i, method := range slices.Concat(bigCalls, bigCalls) {
		// A client may compress its requests.
		encoding := [2]string{"grpc-encoding", []string{"identity", gzip.Name}[i/len(bigCalls)]}
		conn := d.dial(t)
		framer := unreadCall(t, conn, method, nil, encoding)
		code, body := d.get(t, "/pods")
		refused(t, code, body, "too many lists at a time: there are 1")
		client := d.grpc(t, d.socket)
		if _, err := podsv1alpha1.NewPodsClient(client).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: ListPods meanwhile: %v", method, err)
		}
		if _, err := podconfigd.NewPodConfigClient(client).Status(t.Context(), &podconfigd.StatusRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: Status meanwhile: %v", method, err)
		}
		if err := framer.WriteWindowUpdate(1, 1<<20); err != nil {
			t.Fatal(err)
		}
		d.listed(t, method+" was read")
		_ = conn.Close()

		reset := d.dial(t)
		if err := unreadCall(t, reset, method, nil, encoding).WriteRSTStream(1, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		d.listed(t, method+" was reset")
		_ = reset.Close()

		gone := d.dial(t)
		unreadCall(t, gone, method, nil, encoding)
		_ = gone.Close()
		d.listed(t, method+"'s client went away")
	}
}

func TestAnswersThatNobodyReadsHaveADeadline(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Lists: 1, ListTimeout: 200 * time.Millisecond})
	d.add("a", 1)
	for name, call := range map[string]struct{ method, message string }{
		"List": {bigCalls[0], ""}, "Status": {bigCalls[1], ""}, "ListPods": {bigCalls[2], ""}, "GetPod": {"/v1alpha1.Pods/GetPod", "\x0a\x01a"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := d.dial(t)
			_, err := tryUnreadCall(t, conn, call.method, []byte(call.message))
			if err == nil {
				_, err = io.Copy(io.Discard, conn)
			}
			// On a slow machine, the connection ends before the answer.
			if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset by peer") {
				t.Errorf("the connection stands: %v", err)
			}
			d.listed(t, "it had its time")
		})
	}
}

// large has a server answer with a megabyte where it can.
func large(o *Options) {
	large := strings.Repeat("x", 1<<20)
	o.Status = func() v1alpha1.Status { return v1alpha1.Status{NodeName: large} }
	o.Runtime = func() v1alpha1.RuntimePods { return v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{Name: large}}} }
	o.History = func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
		return func(yield func(*v1alpha1.HistoryRecord, error) bool) { yield(&v1alpha1.HistoryRecord{Gap: large}, nil) }
	}
	o.Version = large
	o.Live = []Check{{Name: "large", Check: func() error { return errors.New(large) }}}
	o.Registerer.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "large", Help: large}))
}

// An answer of HTTP that nobody reads has its place among the lists, if it is large, and
// its time.
func TestAnswersOfHTTPThatNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel() // it waits
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Lists: 1}, large)
	short := serveWithLimits(t, journal.Options{}, conn.Limits{ListTimeout: 500 * time.Millisecond}, large)
	for i := range 16 {
		d.add(fmt.Sprint(i), 64<<10)
		short.add(fmt.Sprint(i), 64<<10)
	}
	unread := make(map[string]net.Conn)
	for path, counts := range map[string]bool{
		"/pods": true, "/pods/?mirrorPods=true": true, "/api/v1/pods": true, "/v1alpha1/status": true, "/v1alpha1/runtime": true, "/v1alpha1/history": true,
		"/metrics": true, "/openapi/v3/api/v1": true, "/version": false, "/livez": false,
	} {
		conn := short.dial(t)
		request(t, conn, path, "")
		_, _ = conn.Read(make([]byte, 16)) // a busy machine may answer too late
		unread[path] = conn
		if !counts {
			continue
		}
		t.Run("the place of "+path, func(t *testing.T) {
			conn := d.dial(t)
			request(t, conn, path, "")
			if _, err := conn.Read(make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{"/pods", "/v1alpha1/status", "/v1alpha1/runtime", "/metrics"} {
				code, body := d.get(t, other)
				refused(t, code, body, "too many lists at a time: there are 1")
			}
			_ = conn.Close()
			d.listed(t, "it is gone")
		})
	}
	for path, conn := range unread {
		t.Run("the time of "+path, func(t *testing.T) { closed(t, conn, path) })
	}
	testutil.Until(t, "all places are given back", func() bool { return short.limits.Sockets.Lists.InUse() == 0 })
}

// closed waits until the daemon has closed the connection.
func closed(t *testing.T, conn net.Conn, path string) {
	t.Helper()
	testutil.Until(t, path+": the connection is closed", func() bool {
		_, err := conn.Write([]byte("x")) // on a closed connection, it fails at once
		return err != nil
	})
}

// What others can reach over TCP takes no place from the socket's clients.
func TestMetricsThatNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel() // it waits
	var options *Options
	serveWithLimits(t, journal.Options{}, conn.Limits{}, large, func(o *Options) { options = o })
	options.Registerer.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "larger", Help: strings.Repeat("x", 16<<20)}))
	serve := func(within time.Duration) string {
		return serveMetrics(t, New(Options{
			Gatherer: options.Gatherer, Limits: conn.Limits{Lists: 1, Scrapes: 2, ListTimeout: within},
		}))
	}
	scrape := func(address string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		request(t, conn, "/metrics", "")
		return conn
	}
	long, short := serve(time.Hour), serve(500*time.Millisecond)
	for range 2 {
		if _, err := scrape(long).Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.Get("http://" + long + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a third scrape: %s", resp.Status)
	}
	stuck := scrape(short)
	_, _ = stuck.Read(make([]byte, 16)) // a busy machine may answer too late
	closed(t, stuck, "/metrics")
}

// A stream that has an end gives its place back at its end, also if its client does not read.
func TestStreamsWithAnEndThatNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel() // it waits
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 1, Connections: 20})
	for i := range 32 {
		d.add(fmt.Sprint(i), 64<<10)
	}
	for _, path := range []string{"/api/v1/pods?watch=true&timeoutSeconds=1", "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"} {
		conn := d.dial(t)
		request(t, conn, path, "")
		if _, err := conn.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		d.free(t)
		closed(t, conn, path)
	}
	for _, method := range []string{"/podconfigd.v1alpha1.PodConfig/Watch", "/v1alpha1.Pods/WatchPods"} {
		unreadCall(t, d.dial(t), method, nil, [2]string{"grpc-timeout", "200m"})
		d.free(t)
	}
}

// A call gives its place back at its end, also if nothing is read of its connection any more.
func TestCallsThatEndOnAConnectionThatNobodyReads(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 1, Connections: 20})
	for i := range 32 {
		d.add(fmt.Sprint(i), 64<<10)
	}
	for _, method := range []string{"/podconfigd.v1alpha1.PodConfig/Watch", "/v1alpha1.Pods/WatchPods"} {
		framer := unreadCall(t, d.dial(t), method, nil, [2]string{"grpc-timeout", "200m"})
		for _, stream := range []uint32{0, 1} {
			if err := framer.WriteWindowUpdate(stream, 1<<24); err != nil {
				t.Fatal(err)
			}
		}
		d.free(t)
	}
}

// A client that reads gets the end of its watch, and can send the next request on the same
// connection. The largest timeout does not overflow.
func TestWatchesThatEndInTime(t *testing.T) {
	t.Parallel() // it waits
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	conn := d.dial(t)
	reader := bufio.NewReader(conn)
	watches := 0
	testutil.Until(t, "two watches have the pod", func() bool {
		request(t, conn, "/api/v1/pods?watch=true&timeoutSeconds=1", "")
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err == nil && len(body) == 0: // on a slow machine, the end comes before the pod
		case err == nil && strings.Contains(string(body), `"name":"a"`):
			watches++
		default:
			t.Fatalf("%v after %s", err, body)
		}
		return watches == 2
	})
	request(t, conn, "/api/v1/pods?watch=true&timeoutSeconds=9223372036", "")
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer conn.Close() // before the body, which has no end
	lines := bufio.NewScanner(resp.Body)
	for _, name := range []string{"a", "b"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), `"name":"`+name+`"`) {
			t.Fatalf("got %q, %v, want %s", lines.Text(), lines.Err(), name)
		}
		d.add("b", 1)
	}
}

// One pod that is large has its place among the lists too. A small one takes none.
func TestALargePodThatNobodyReads(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Lists: 1})
	d.add("large", 1<<20)
	d.add("small", 1)
	conn := d.dial(t)
	request(t, conn, "/api/v1/namespaces/default/pods/large", "")
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"/pods", "/api/v1/namespaces/default/pods/large"} {
		code, body := d.get(t, other)
		refused(t, code, body, "too many lists at a time: there are 1")
	}
	if code, body := d.get(t, "/api/v1/namespaces/default/pods/small"); code != http.StatusOK {
		t.Errorf("a small pod: %d %.200s", code, body)
	}
	_ = conn.Close()
	d.listed(t, "the client is gone")
}
