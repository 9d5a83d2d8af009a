package podsapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/pods"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	kubestatus "k8s.io/kubernetes/pkg/kubelet/status"
)

// kubelet is the part of a kubelet that serves the Pods API.
type kubelet struct {
	socket string
	// lost is how many of a thousand events are lost in silence, and late how many are delayed.
	lost, late int

	mu       sync.Mutex
	pods     kubepod.Manager
	statuses kubestatus.Manager
	server   *grpc.Server
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

// notYet is what the status manager needs of other parts.
type notYet struct{}

func (notYet) PodCouldHaveRunningContainers(*v1.Pod) bool { return true }
func (notYet) RecordStatusUpdated(klog.Logger, *v1.Pod)   {}
func (notYet) DeletePodStartupState(types.UID)            {}

// start starts it with pods, whose statuses it does not know yet.
//
// kubelet: pkg/kubelet/server/server.go ListenAndServePodsServer.
func (k *kubelet) start(tb testing.TB, all ...*v1.Pod) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	manager := kubepod.NewBasicPodManager()
	manager.SetPods(all)
	statuses := kubestatus.NewManager(nil, manager, notYet{}, notYet{})
	server := pods.NewPodsServer(pods.NewBroadcaster(ctx), manager, statuses, nil)
	statuses.AddPodUpdateNotifier(&bus{to: server, lost: k.lost, late: k.late})
	_ = os.Remove(k.socket) // it may not be there
	l, err := new(net.ListenConfig).Listen(ctx, "unix", k.socket)
	if err != nil {
		tb.Fatal(err)
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(
		apisgrpc.LimiterUnaryServerInterceptor(rate.NewLimiter(pods.DefaultQPS, pods.DefaultBurstTokens))))
	podsv1alpha1.RegisterPodsServer(g, server)
	k.serving.Go(func() { _ = g.Serve(l) }) // it ends with Stop
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods, k.statuses, k.server, k.stop = manager, statuses, g, stop
}

// kill ends it, as kill -9 does.
func (k *kubelet) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.server.Stop()
	k.stop()
	k.serving.Wait()
}

// set sets the status of a pod.
func (k *kubelet) set(pod *v1.Pod, status *v1.PodStatus) {
	k.mu.Lock()
	statuses := k.statuses
	k.mu.Unlock()
	statuses.SetPodStatus(klog.Background(), pod, *status)
}

// finish says that a pod has ended.
func (k *kubelet) finish(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.statuses.TerminatePod(klog.Background(), pod)
}

// forget removes a pod.
func (k *kubelet) forget(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods.RemovePod(pod)
	left := make(map[types.UID]bool)
	for _, p := range k.pods.GetPods() {
		left[p.UID] = true
	}
	k.statuses.RemoveOrphanedStatuses(klog.Background(), left)
}

// status returns the status that it has of a pod.
func (k *kubelet) status(uid types.UID) (v1.PodStatus, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.statuses.GetPodStatus(uid)
}

// bus is the way of the events to the server. It loses some, as the server does if its buffer is full, and delays some, so
// that they come after later ones, as two goroutines of the kubelet do that change one pod.
type bus struct {
	to         kubestatus.PodUpdateNotifier
	lost, late int
}

// delay is the delay of late events. In this time, a pod usually has another event.
const delay = 10 * time.Millisecond

func (b *bus) OnPodUpdated(logger klog.Logger, pod *v1.Pod, status v1.PodStatus, isAdded bool) {
	b.pass(func() { b.to.OnPodUpdated(logger, pod, status, isAdded) })
}

func (b *bus) OnPodRemoved(logger klog.Logger, pod *v1.Pod) {
	b.pass(func() { b.to.OnPodRemoved(logger, pod) })
}

func (b *bus) pass(send func()) {
	switch n := rand.IntN(1000); {
	case n < b.lost:
	case n < b.lost+b.late:
		time.AfterFunc(delay, send) // short: a delay
	default:
		send()
	}
}

// podOf returns a pod as a kubelet has it just after its start.
func podOf(i int) *v1.Pod {
	name := fmt.Sprintf("pod-%04d", i)
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways,
		Containers:    []v1.Container{{Name: "c", Image: "registry.example/image:1"}},
	}}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID("uid-of-"+name)
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	pod.Status.Phase = v1.PodPending
	return pod
}
