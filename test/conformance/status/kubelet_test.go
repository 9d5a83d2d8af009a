package status

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	_ "k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/status"
	statustest "k8s.io/kubernetes/pkg/kubelet/status/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/utils/clock"

	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

//go:linkname newRuntimeManager k8s.io/kubernetes/pkg/kubelet/kuberuntime.newFakeKubeRuntimeManager
func newRuntimeManager(ctx context.Context, runtime internalapi.RuntimeService, images internalapi.ImageManagerService, machine *cadvisorapi.MachineInfo,
	os kubecontainer.OSInterface, helper kubecontainer.RuntimeHelper, tracer trace.Tracer) (unsafe.Pointer, error)

//go:linkname getPods k8s.io/kubernetes/pkg/kubelet/kuberuntime.(*kubeGenericRuntimeManager).GetPods
func getPods(manager unsafe.Pointer, ctx context.Context, all bool) ([]*kubecontainer.Pod, error) //nolint:revive // the receiver of a linked method

//go:linkname getPodStatus k8s.io/kubernetes/pkg/kubelet/kuberuntime.(*kubeGenericRuntimeManager).GetPodStatus
func getPodStatus(manager unsafe.Pointer, ctx context.Context, pod *kubecontainer.Pod) (*kubecontainer.PodStatus, error) //nolint:revive // the receiver of a linked method

//go:linkname getPodIPs k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).getPodIPs
func getPodIPs(g *pleg.GenericPLEG, uid types.UID, status *kubecontainer.PodStatus) []string

//go:linkname generateAPIPodStatus k8s.io/kubernetes/pkg/kubelet.(*Kubelet).generateAPIPodStatus
func generateAPIPodStatus(k *kubelet.Kubelet, ctx context.Context, pod *v1.Pod, status *kubecontainer.PodStatus, terminal bool) v1.PodStatus //nolint:revive // the receiver of a linked method

// theKubelet has the parts of a kubelet that make a status.
type theKubelet struct {
	kubelet  *kubelet.Kubelet
	statuses status.Manager
	runtime  *critest.FakeRuntimeService
	manager  unsafe.Pointer
	cache    kubecontainer.Cache
	pleg     *pleg.GenericPLEG
	// ended is true after TerminatePod has changed the status, which is the last change. The
	// kubelet does not change the conditions then, and podconfigd does.
	ended bool
	// refused is true if the status manager has refused the last status. late is true once it
	// has refused a status after it had taken one of the same state of the runtime: it then
	// keeps the phase of a first sync.
	refused, late bool
}

// states returns the states of the containers.
func states(status v1.PodStatus) (states string) {
	for _, container := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		states += fmt.Sprintf("%s %t %t %t\n", container.Name, container.State.Running != nil, container.State.Waiting != nil, container.State.Terminated != nil)
	}
	return states
}

func newKubelet(t *testing.T, node podstatus.Node) *theKubelet {
	t.Helper()
	klog.SetLogger(logr.Discard())
	k := &theKubelet{kubelet: &kubelet.Kubelet{}, runtime: critest.NewFakeRuntimeService(), cache: kubecontainer.NewCache()}
	client := &fake.Clientset{}
	k.statuses = status.NewManager(client, kubepod.NewBasicPodManager(), &statustest.FakePodDeletionSafetyProvider{}, kubeletutil.NewPodStartupLatencyTracker())
	var err error
	k.manager, err = newRuntimeManager(t.Context(), k.runtime, critest.NewFakeImageService(), nil, nil, nil, noop.NewTracerProvider().Tracer(""))
	if err != nil {
		t.Fatal(err)
	}
	k.pleg = pleg.NewGenericPLEG(nil, nil, nil, k.cache, clock.RealClock{}).(*pleg.GenericPLEG)

	var ips []net.IP
	for _, ip := range node.IPs {
		ips = append(ips, net.ParseIP(ip))
	}
	recorder := record.NewFakeRecorder(0)
	results := proberesults.NewManager
	k.set("kubeClient", client)
	k.set("nodeName", types.NodeName("node1"))
	k.set("nodeLister", nodes{node})
	k.set("nodeIPs", ips)
	k.set("statusManager", k.statuses)
	k.set("reasonCache", kubelet.NewReasonCache())
	k.set("containerManager", cm.NewFakeContainerManager(klog.Background()))
	k.set("probeManager", prober.NewManager(k.statuses, results(), results(), results(), nil, recorder))
	return k
}

// set sets a field of the kubelet that is not exported.
func (k *theKubelet) set(field string, value any) {
	f := reflect.ValueOf(k.kubelet).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

// sync does what the kubelet does with the status of a pod when it syncs it.
func (k *theKubelet) sync(t *testing.T, pod *v1.Pod, state *state) v1.PodStatus {
	t.Helper()
	k.runtime.Sandboxes, k.runtime.Containers = map[string]*critest.FakePodSandbox{}, map[string]*critest.FakeContainer{}
	running := false
	for _, s := range state.sandboxes {
		sandbox := &critest.FakePodSandbox{}
		copyMessage(&sandbox.PodSandboxStatus, s)
		k.runtime.Sandboxes[s.GetId()] = sandbox
		running = running || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	}
	for _, c := range state.containers {
		container := &critest.FakeContainer{SandboxID: state.sandboxOf[c.GetId()]}
		copyMessage(&container.ContainerStatus, c)
		k.runtime.Containers[c.GetId()] = container
		running = running || c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	runtimePod := &kubecontainer.Pod{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	if pods, err := getPods(k.manager, t.Context(), true); err != nil {
		t.Fatal(err)
	} else if len(pods) > 0 {
		runtimePod = pods[0]
	}
	podStatus, err := getPodStatus(k.manager, t.Context(), runtimePod)
	if err != nil {
		t.Fatal(err)
	}
	podStatus.IPs = getPodIPs(k.pleg, pod.UID, podStatus)
	k.cache.Set(pod.UID, podStatus, nil, time.Now())

	terminal := pod.DeletionTimestamp != nil && !running
	generated := generateAPIPodStatus(k.kubelet, t.Context(), pod, podStatus, terminal)
	refused := k.refused
	k.statuses.SetPodStatus(klog.Background(), pod, generated)
	cached, _ := k.statuses.GetPodStatus(pod.UID)
	k.refused = states(cached) != states(generated)
	k.late = k.late || k.refused && !refused
	// The kubelet keeps the addresses that it shows.
	podStatus.IPs = nil
	for _, ip := range cached.PodIPs {
		podStatus.IPs = append(podStatus.IPs, ip.IP)
	}
	if !running && (terminal || cached.Phase == v1.PodFailed || cached.Phase == v1.PodSucceeded) {
		// The apiserver has the status of the containers by now.
		ended := pod.DeepCopy()
		ended.Status.ContainerStatuses, ended.Status.InitContainerStatuses = cached.ContainerStatuses, cached.InitContainerStatuses
		k.statuses.TerminatePod(klog.Background(), ended)
		before := cached
		cached, _ = k.statuses.GetPodStatus(pod.UID)
		k.ended = k.ended || !equality.Semantic.DeepEqual(before, cached)
	}
	return *cached.DeepCopy()
}

// nodes lists one node.
type nodes struct{ node podstatus.Node }

func (n nodes) List(labels.Selector) ([]*v1.Node, error) { return nil, nil }

func (n nodes) Get(name string) (*v1.Node, error) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, ip := range n.node.IPs {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return node, nil
}
