package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/components"
)

// The requests of a source.
const (
	getNode  = "get the node"
	listPods = "list pods"
	listing  = "watch that lists"
	watching = "watch"

	listObjects  = "list other objects"
	watchObjects = "watch other objects"
)

func init() {
	// The second handler sleeps in a time from before the bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

// fake is an apiserver with faults that a real one can't have. Its connections are pipes,
// in virtual time.
type fake struct {
	t      *testing.T
	source *Source
	conns  chan net.Conn
	closed chan struct{}
	// refuses means that new connections are refused.
	refuses atomic.Bool

	mu     sync.Mutex
	faults map[string]nethttp.HandlerFunc
	pods   []v1.Pod
	asked  []request
	sets   int
	last   []*v1.Pod
	logged []string
}

type request struct {
	what string
	at   time.Time
}

// Accept, Close and Addr make it a net.Listener.
func (f *fake) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *fake) Close() error   { return nil }
func (f *fake) Addr() net.Addr { return &net.TCPAddr{} }

func (f *fake) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if f.refuses.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case f.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run runs a source against a fake that has two pods, in a bubble.
func run(t *testing.T, faults map[string]nethttp.HandlerFunc, test func(f *fake)) {
	t.Helper()
	runWith(t, Objects{}, faults, test)
}

func runWith(t *testing.T, objects Objects, faults map[string]nethttp.HandlerFunc, test func(f *fake)) {
	t.Helper()
	conf := components.NewKubeconfig("http://127.0.0.1:1", nil)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	components.WriteKubeconfig(t, path, conf)
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Kubeconfig: path, Node: "node", Registerer: prometheus.NewRegistry(), Objects: objects, NamespaceMetadata: true})
		f := &fake{
			t: t, source: s, conns: make(chan net.Conn), closed: make(chan struct{}),
			faults: faults, pods: []v1.Pod{fakePod("a", "10"), fakePod("b", "11")},
		}
		s.connector.dial = f.dial
		logger := funcr.New(func(_, args string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.logged = append(f.logged, args)
		}, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		server := &nethttp.Server{Handler: f}
		sets := make(chan config.SourceSet)
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(f) })
		running.Go(func() { _ = s.Run(ctx, sets) })
		running.Go(func() { f.take(ctx, sets) })
		defer func() {
			cancel()
			close(f.closed)
			server.Close()
			running.Wait()
			<-time.After(time.Second) // requests end
			f.watchesFollowLists()
			if t.Failed() {
				t.Logf("it was asked %d times, and logged:\n%s", len(f.asked), strings.Join(f.logged[:min(len(f.logged), 20)], "\n"))
			}
		}()
		test(f)
	})
}

func (f *fake) take(ctx context.Context, sets <-chan config.SourceSet) {
	for {
		select {
		case set := <-sets:
			f.mu.Lock()
			f.sets++
			f.last = set.Pods
			f.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

func fakePod(name, version string) v1.Pod {
	return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version}}
}

func (f *fake) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	what := listPods
	query := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
		what = getNode
	case !strings.HasSuffix(r.URL.Path, "/pods") && query.Get("watch") == "":
		what = listObjects
	case !strings.HasSuffix(r.URL.Path, "/pods"):
		what = watchObjects
	case query.Get("sendInitialEvents") == "true":
		what = listing
	case query.Get("watch") != "":
		what = watching
	}
	f.mu.Lock()
	f.asked = append(f.asked, request{what, time.Now()})
	fault, pods := f.faults[what], f.pods
	f.mu.Unlock()
	<-time.After(10 * time.Millisecond) // like a real one
	w.Header().Set("Content-Type", "application/json")
	if fault != nil {
		fault(w, r)
		return
	}
	switch what {
	case getNode:
		write(w, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node"}})
	case listPods:
		write(w, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"resourceVersion": "20"}, "items": pods})
	case listing:
		for i := range pods {
			event(w, "ADDED", &pods[i])
		}
		bookmark(w, "20", true)
		<-r.Context().Done()
	case watching:
		flush(w)
		<-r.Context().Done()
	case listObjects, watchObjects:
		w.WriteHeader(nethttp.StatusNotFound)
	}
}

func write(w io.Writer, object any) {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(append(data, '\n'))
}

func flush(w nethttp.ResponseWriter) { _ = nethttp.NewResponseController(w).Flush() }

// event writes an event of a watch.
func event(w nethttp.ResponseWriter, kind string, object any) {
	if pod, ok := object.(*v1.Pod); ok {
		pod = pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		object = pod
	}
	write(w, map[string]any{"type": kind, "object": object})
	flush(w)
}

func bookmark(w nethttp.ResponseWriter, version string, endsList bool) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if endsList {
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	event(w, "BOOKMARK", pod)
}

// status returns a handler that answers with the code and a Status.
func status(code int, reason metav1.StatusReason, header ...string) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		write(w, statusOf(code, reason))
	}
}

func statusOf(code int, reason metav1.StatusReason) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
		"message": fmt.Sprintf("the fault %d", code),
	}
}

// watchesFollowLists checks that each watch begins with a list, whatever ended the last one.
func (f *fake) watchesFollowLists() {
	var before request
	for _, r := range f.attempts(time.Time{}) {
		// The transport repeats a request at once if the connection is closed without an answer.
		repeated := r.what == before.what && r.at.Sub(before.at) < 20*time.Millisecond
		if r.what == watching && before.what != listPods && !repeated {
			f.t.Errorf("%s at %v, after %q", r.what, r.at, before.what)
		}
		if r.what != listObjects && r.what != watchObjects {
			before = r
		}
	}
}

// podRequests are faults for each request of pods.
func podRequests(fault nethttp.HandlerFunc) map[string]nethttp.HandlerFunc {
	return map[string]nethttp.HandlerFunc{listPods: fault, listing: fault, watching: fault}
}

// mend replaces the faults.
func (f *fake) mend(faults map[string]nethttp.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// attempts returns the requests of pods after since.
func (f *fake) attempts(since time.Time) (all []request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.asked {
		if r.what != getNode && !r.at.Before(since) {
			all = append(all, r)
		}
	}
	return all
}

// log returns what is logged.
func (f *fake) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.logged, "\n")
}

// errors returns the number of logged errors. All must be from the source.
func (f *fake) errors() (n int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.logged {
		if strings.Contains(line, `"error"=`) || strings.Contains(line, `"err"=`) {
			n++
			if !strings.Contains(line, "A request to the apiserver failed") {
				f.t.Errorf("somebody else logged: %s", line)
			}
		}
	}
	return n
}

// failures returns the metric.
func (f *fake) failures() int { return int(testutil.ToFloat64(f.source.board.metrics.failures)) }

// has waits until the last set has this number of pods.
func (f *fake) has(pods int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets > 0 && len(f.last) == pods
}
