package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/metrics"
	cachertesting "k8s.io/apiserver/pkg/storage/cacher/testing"
	"k8s.io/client-go/kubernetes/scheme"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/clock"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/server"
)

// slowPeers are the compared servers. The apiserver is its watch cache alone, as in the benchmark of the KEP: its watchers are channels,
// without a connection and without encoding.
var slowPeers = []struct {
	name  string
	start func(testing.TB) *slowPeer
}{
	{"podconfigd-pods-api", slowPodsAPI(startOurPodsAPI)},
	{"kubelet", slowPodsAPI(startKubeletPodsAPI)},
	{"podconfigd-kubernetes-api", startSlowKubeAPI},
	{"apiserver-cache", startSlowCache},
}

// slowChange returns the i-th change of the pods, with its time.
func slowChange(pods []*v1.Pod, i int, now time.Time) *v1.Pod {
	pod := *pods[i%len(pods)]
	pod.Annotations = map[string]string{stampAnnotation: strconv.FormatInt(now.UnixNano(), 10)}
	return &pod
}

func slowSocket(tb testing.TB) (net.Listener, string, []*v1.Pod) {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	var pods []*v1.Pod
	for i := range changers {
		pods = append(pods, benchPod(i))
	}
	return l, socket, pods
}

func slowPodsAPI(start func(testing.TB, net.Listener, []*v1.Pod) func(*v1.Pod)) func(testing.TB) *slowPeer {
	return func(tb testing.TB) *slowPeer {
		tb.Helper()
		return startSlowPodsAPI(tb, start)
	}
}

func startSlowPodsAPI(tb testing.TB, start func(testing.TB, net.Listener, []*v1.Pod) func(*v1.Pod)) *slowPeer {
	tb.Helper()
	l, socket, pods := slowSocket(tb)
	change := start(tb, l, pods)
	kubeletmetrics.Register()
	before := counted(tb, kubeletmetrics.PodWatchEventsDroppedTotal)
	return &slowPeer{
		change: func(i int, now time.Time) { change(slowChange(pods, i, now)) },
		ended:  func() int64 { return counted(tb, kubeletmetrics.PodWatchEventsDroppedTotal) - before },
		watch: func(ctx context.Context, _ string) (slowWatch, error) {
			conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, err
			}
			stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
			return &slowPods{conn: conn, stream: stream}, err
		},
	}
}

// counted returns the value of a counter. The kubelet's counts the watches that it dropped, and the events that it lost for all.
func counted(tb testing.TB, counter basemetrics.CounterMetric) int64 {
	tb.Helper()
	n, err := testutil.GetCounterMetricValue(counter)
	if err != nil {
		tb.Error(err)
	}
	return int64(n)
}

// slowPods is a watch of the Pods API, which has no resume.
type slowPods struct {
	conn   *grpc.ClientConn
	stream podsv1alpha1.Pods_WatchPodsClient
	last   []byte
}

func (w *slowPods) next() (bool, error) {
	event, err := w.stream.Recv()
	if err != nil {
		return false, err
	}
	w.last = event.GetPod()
	return event.GetType() == podsv1alpha1.EventType_MODIFIED, nil
}

func (w *slowPods) at() (time.Time, error) {
	var pod v1.Pod
	if err := pod.Unmarshal(w.last); err != nil {
		return time.Time{}, err
	}
	return parseStamp(pod.Annotations)
}

func (w *slowPods) position() string { return "" }
func (w *slowPods) close()           { _ = w.conn.Close() } // nothing is sent any more

func startSlowKubeAPI(tb testing.TB) *slowPeer {
	tb.Helper()
	l, socket, pods := slowSocket(tb)
	updates := serveJournal(tb, l, (*server.Server).Run, pods)
	var expired atomic.Int64
	return &slowPeer{
		change: func(i int, now time.Time) {
			updates.Append(config.PodUpdate{Op: config.UPDATE, Source: config.FileSource, Pods: []*v1.Pod{slowChange(pods, i, now)}})
		},
		ended: expired.Load,
		watch: func(ctx context.Context, position string) (slowWatch, error) {
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) }}
			address := "http://podconfigd/api/v1/pods?watch=true&resourceVersion=" + position
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
			if err != nil {
				return nil, err
			}
			response, err := transport.RoundTrip(request) //nolint:bodyclose // slowLines closes it
			if err != nil {
				return nil, err
			}
			lines := bufio.NewReaderSize(response.Body, 1<<16)
			return &slowLines{transport: transport, body: response.Body, lines: lines, expired: &expired}, nil
		},
	}
}

// slowLines is a watch of the Kubernetes API in JSON.
type slowLines struct {
	transport *http.Transport
	body      io.Closer
	lines     *bufio.Reader
	last      []byte
	expired   *atomic.Int64
}

func (w *slowLines) next() (bool, error) {
	line, err := w.lines.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
		w.expired.Add(1)
		return false, errExpired
	}
	w.last = append(w.last[:0], line...)
	return bytes.HasPrefix(line, []byte(`{"type":"MODIFIED"`)), nil
}

func (w *slowLines) pod() (*v1.Pod, error) {
	var event struct{ Object v1.Pod }
	err := json.Unmarshal(w.last, &event)
	return &event.Object, err
}

func (w *slowLines) at() (time.Time, error) {
	pod, err := w.pod()
	if err != nil {
		return time.Time{}, err
	}
	return parseStamp(pod.Annotations)
}

func (w *slowLines) position() string {
	if len(w.last) == 0 {
		return ""
	}
	pod, _ := w.pod()
	return pod.ResourceVersion
}

func (w *slowLines) close() {
	_ = w.body.Close() // it is only read
	w.transport.CloseIdleConnections()
}

// startSlowCache starts the watch cache of an apiserver over a storage that has only the injected events.
func startSlowCache(tb testing.TB) *slowPeer {
	tb.Helper()
	metrics.Register()
	const first = 100 // the resourceVersion of the storage's list
	var pods []*v1.Pod
	for i := range changers {
		pods = append(pods, benchPod(i))
		pods[i].ResourceVersion = strconv.Itoa(first)
	}
	injected := watch.NewFakeWithChanSize(1<<14, false)
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: &cachertesting.MockStorage{
			GetListFn: func(_ context.Context, _ string, _ storage.ListOptions, to runtime.Object) error {
				list, ok := to.(*v1.PodList)
				if !ok {
					return fmt.Errorf("a list of %T", to)
				}
				list.ResourceVersion = strconv.Itoa(first)
				for _, pod := range pods {
					list.Items = append(list.Items, *pod)
				}
				return nil
			},
			WatchFn: func(context.Context, string, storage.ListOptions) (watch.Interface, error) { return injected, nil },
		},
		Versioner: storage.APIObjectVersioner{}, GroupResource: schema.GroupResource{Resource: "pods"},
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: "/pods/", Clock: clock.RealClock{},
		KeyFunc:      func(o runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", o) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr,
		NewFunc:      func() runtime.Object { return new(v1.Pod) }, NewListFunc: func() runtime.Object { return new(v1.PodList) },
		Codec: scheme.Codecs.LegacyCodec(v1.SchemeGroupVersion),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Stop)
	if err := c.Wait(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	revision := first
	terminated := metrics.TerminatedWatchersCounter.WithLabelValues("", "pods")
	before := counted(tb, terminated)
	return &slowPeer{
		change: func(i int, now time.Time) {
			pod := slowChange(pods, i, now)
			revision++
			pod.ResourceVersion = strconv.Itoa(revision)
			injected.Modify(pod)
		},
		ended: func() int64 { return counted(tb, terminated) - before },
		watch: func(ctx context.Context, position string) (slowWatch, error) {
			if position == "" {
				position = "0" // with all pods
			}
			w, err := c.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: position, Predicate: storage.Everything, Recursive: true})
			if apierrors.IsResourceExpired(err) {
				err = errExpired
			}
			return &slowObjects{watch: w}, err
		},
	}
}

// slowObjects is a watch of the watch cache.
type slowObjects struct {
	watch watch.Interface
	last  *v1.Pod
}

func (w *slowObjects) next() (bool, error) {
	event, ok := <-w.watch.ResultChan()
	if !ok {
		return false, io.EOF
	}
	if event.Type == watch.Error {
		return false, errExpired
	}
	object := event.Object
	if cached, ok := object.(runtime.CacheableObject); ok {
		object = cached.GetObject()
	}
	w.last, ok = object.(*v1.Pod)
	if !ok {
		return false, fmt.Errorf("an event with %T", object)
	}
	return event.Type == watch.Modified, nil
}

func (w *slowObjects) at() (time.Time, error) { return parseStamp(w.last.Annotations) }

func (w *slowObjects) position() string {
	if w.last == nil {
		return ""
	}
	return w.last.ResourceVersion
}

func (w *slowObjects) close() { w.watch.Stop() }
