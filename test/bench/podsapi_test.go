package bench

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	podsapi "k8s.io/kubernetes/pkg/kubelet/apis/pods"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/server"
)

// paced is the maximum number of updates in flight: half of the queue after which the
// kubelet drops a subscriber.
const paced = 50

// podsServers are the compared servers of the Pods API. Each listens on a socket and
// returns a function that changes one of the pods.
var podsServers = []struct {
	name  string
	start func(tb testing.TB, l net.Listener, pods []*v1.Pod) (change func(*v1.Pod))
}{
	{"podconfigd", startOurPodsAPI},
	{"kubelet", startKubeletPodsAPI},
}

// BenchmarkPodsAPI measures the cost of subscribers of the Pods API. Each op is one changed pod. It
// is delivered when the kubelet's published client has it. The processor time includes both ends,
// which are in one process.
func BenchmarkPodsAPI(b *testing.B) {
	for _, s := range podsServers {
		b.Run("watchers=100/peer="+s.name, func(b *testing.B) {
			w := newPodsWatch(b, s.start, 100, false)
			w.update(b, 10*paced) // warm-up
			before, cpu, begin := w.made, processCPU(b), time.Now()
			for b.Loop() {
				w.update(b, 1)
			}
			w.settle(b, 0)
			deliveries := float64(w.made-before) * float64(len(w.delivered))
			b.ReportMetric(deliveries/time.Since(begin).Seconds(), "deliveries/s")
			b.ReportMetric((processCPU(b)-cpu).Seconds()*1e6/deliveries, "cpu-µs/delivery")
		})
	}
}

// podsWatch is a server of the Pods API with subscribers.
type podsWatch struct {
	pods   []*v1.Pod
	change func(*v1.Pod)
	made   int
	// check makes the subscribers decode the updates, which costs more than sending them.
	check bool
	// delivered is the number of updates of each subscriber. held has the version of each
	// of its pods.
	delivered []atomic.Int64
	held      []*heldVersions
	news      chan struct{}
	failures  chan error
}

func newPodsWatch(tb testing.TB, start func(testing.TB, net.Listener, []*v1.Pod) func(*v1.Pod), watchers int, check bool) *podsWatch {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "pods.sock")
	l, err := new(net.ListenConfig).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	w := &podsWatch{
		check:     check,
		delivered: make([]atomic.Int64, watchers), held: make([]*heldVersions, watchers), news: make(chan struct{}, 1), failures: make(chan error, watchers),
	}
	for i := range changers {
		w.pods = append(w.pods, benchPod(i))
	}
	w.change = start(tb, l, w.pods)
	ctx, cancel := context.WithCancel(context.Background())
	var running, synced sync.WaitGroup
	tb.Cleanup(func() { cancel(); running.Wait() })
	synced.Add(watchers)
	for i := range watchers {
		w.held[i] = new(heldVersions)
		running.Go(func() { w.failures <- w.watch(ctx, socket, i, synced.Done) })
	}
	synced.Wait()
	return w
}

// watch is a subscriber with its own connection.
func (w *podsWatch) watch(ctx context.Context, socket string, i int, synced func()) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		switch event.GetType() {
		case podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE:
			synced()
		case podsv1alpha1.EventType_MODIFIED:
			if w.check {
				w.held[i].take(event.GetPod())
			}
			w.delivered[i].Add(1)
			select {
			case w.news <- struct{}{}:
			default:
			}
		}
	}
}

// update changes n pods in turn, with at most as many in flight as the kubelet supports.
func (w *podsWatch) update(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		w.settle(tb, paced-1)
		w.next()
	}
}

// next changes the next pod.
func (w *podsWatch) next() {
	w.change(changed(w.pods, w.made))
	w.made++
}

// changed returns the i-th change of the pods.
func changed(pods []*v1.Pod, i int) *v1.Pod {
	pod := *pods[i%len(pods)]
	pod.Annotations = map[string]string{"version": fmt.Sprint(i)}
	return &pod
}

// heldVersions are the versions that a subscriber has.
type heldVersions struct {
	mu   sync.Mutex
	pods map[types.UID]string
	err  error
}

func (h *heldVersions) take(data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods == nil {
		h.pods = make(map[types.UID]string)
	}
	var pod v1.Pod
	if err := pod.Unmarshal(data); err != nil {
		h.err = err
		return
	}
	h.pods[pod.UID] = pod.Annotations["version"]
}

// settle waits until every subscriber has at most underWay updates left.
func (w *podsWatch) settle(tb testing.TB, underWay int) {
	tb.Helper()
	awaitDeliveries(tb, w.delivered, int64(w.made-underWay), w.news, w.failures)
}

// benchPod is a pod of three containers with ten variables each.
func benchPod(i int) *v1.Pod {
	name := fmt.Sprintf("pod-%04d", i)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
		Annotations: map[string]string{config.ConfigSourceAnnotationKey: config.FileSource},
	}}
	for c := range 3 {
		container := v1.Container{Name: fmt.Sprintf("container-%d", c), Image: "registry.example/image:1"}
		for e := range 10 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: "the value of a variable"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

func startOurPodsAPI(tb testing.TB, l net.Listener, pods []*v1.Pod) func(*v1.Pod) {
	tb.Helper()
	updates := serveJournal(tb, l, (*server.Server).RunPodsAPI, pods)
	return func(pod *v1.Pod) {
		updates.Append(config.PodUpdate{Op: config.UPDATE, Source: config.FileSource, Pods: []*v1.Pod{pod}})
	}
}

// noStatus has no status. The pods have their own.
type noStatus struct{}

// GetPodStatus returns none.
func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func startKubeletPodsAPI(tb testing.TB, l net.Listener, pods []*v1.Pod) func(*v1.Pod) {
	tb.Helper()
	klog.SetLogger(logr.Discard()) // it logs a line for each change
	manager := kubepod.NewBasicPodManager()
	manager.SetPods(pods)
	s := podsapi.NewPodsServer(podsapi.NewBroadcaster(tb.Context()), manager, noStatus{}, nil)
	g := grpc.NewServer()
	podsv1alpha1.RegisterPodsServer(g, s)
	go func() { _ = g.Serve(l) }() // ends with Stop
	tb.Cleanup(g.Stop)
	return func(pod *v1.Pod) {
		manager.UpdatePod(pod)
		s.OnPodUpdated(klog.Background(), pod, pod.Status, false)
	}
}

// processCPU returns the processor time of this process.
func processCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Nano())
}
