package status

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// state is a state of the runtime.
type state struct {
	sandboxes  []*runtimeapi.PodSandboxStatus
	containers []*runtimeapi.ContainerStatus
	// sandboxOf are the sandboxes of the containers, by ID.
	sandboxOf map[string]string
}

func (s *state) record() *podstatus.Record {
	return &podstatus.Record{Sandboxes: s.sandboxes, Containers: s.containers}
}

// MarshalJSON is for the message of a failed test.
func (s *state) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%q", fmt.Sprint(s.sandboxes, s.containers)), nil
}

func copyMessage(to, from proto.Message) { proto.Merge(to, from) }

func oneIn(t *rapid.T, n int, what string) bool {
	return rapid.IntRange(0, n-1).Draw(t, what) == n-1
}

func pick[T any](t *rapid.T, what string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, what)
}

func drawNode(t *rapid.T) podstatus.Node {
	return podstatus.Node{Runtime: "fakeRuntime", IPs: pick(t, "node", []string{"10.0.0.1"}, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::1", "10.0.0.1"}, []string{"fd00::1"})}
}

// drawPod draws a pod. The apiserver would refuse some of them.
func drawPod(t *rapid.T) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "default", UID: "uid",
			Generation:  int64(rapid.IntRange(0, 2).Draw(t, "generation")),
			Annotations: map[string]string{"kubernetes.io/config.source": pick(t, "source", "file", "api")},
		},
		Spec: v1.PodSpec{
			RestartPolicy: pick(t, "restart policy", v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever),
			HostNetwork:   rapid.Bool().Draw(t, "host network"),
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		container := drawContainer(t, fmt.Sprintf("i%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			container.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	// Not in the order of their names.
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, fmt.Sprintf("c%d", 9-i)))
	}
	if oneIn(t, 4, "ephemeral") {
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "debug"}}}
	}
	if oneIn(t, 6, "gate") {
		pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}, {ConditionType: "example.com/other"}}
		pod.Status.Conditions = []v1.PodCondition{
			{Type: "example.com/gate", Status: pick(t, "gate", v1.ConditionTrue, v1.ConditionFalse)},
			{Type: "example.com/other", Status: v1.ConditionTrue},
		}[:rapid.IntRange(0, 2).Draw(t, "gates")]
	}
	if oneIn(t, 6, "pod resources") {
		pod.Spec.Resources = new(drawResources(t))
	}
	if oneIn(t, 12, "terminal") {
		pod.Status.Phase = pick(t, "phase", v1.PodFailed, v1.PodSucceeded)
		pod.Status.Reason, pod.Status.Message = "Evicted", "The node was low on resource"
	}
	return pod
}

func drawContainer(t *rapid.T, name string) v1.Container {
	container := v1.Container{Name: name, Image: "image-" + name, Resources: drawResources(t)}
	if oneIn(t, 3, "mount") {
		container.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: rapid.Bool().Draw(t, "read-only")}}
	}
	if oneIn(t, 3, "container policy") {
		container.RestartPolicy = new(pick(t, "container policy", v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyAlways))
	}
	if oneIn(t, 4, "rules") {
		container.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: pick(t, "action", v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers),
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: pick(t, "operator", v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn),
				Values:   []int32{3},
			},
		}}
	}
	return container
}

func drawResources(t *rapid.T) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: drawList(t, "requests"), Limits: drawList(t, "limits")}
}

func drawList(t *rapid.T, what string) v1.ResourceList {
	if rapid.Bool().Draw(t, "no "+what) {
		return nil
	}
	list := v1.ResourceList{}
	if cpu := pick(t, what, "", "0", "1m", "5m", "100m", "1"); cpu != "" {
		list[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory := pick(t, what, "", "0", "64Mi", "1Gi"); memory != "" {
		list[v1.ResourceMemory] = resource.MustParse(memory)
	}
	if oneIn(t, 6, what) {
		list[v1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	}
	return list
}

const second = int64(time.Second)

// drawState draws a state of the runtime. The IDs of containers come back, so that a
// container has a life over several states.
func drawState(t *rapid.T, pod *v1.Pod) *state {
	s := &state{sandboxOf: map[string]string{}}
	for attempt := range rapid.IntRange(0, 2).Draw(t, "sandboxes") {
		s.sandboxes = append(s.sandboxes, drawSandbox(t, pod, attempt))
	}
	if len(s.sandboxes) == 0 {
		return s
	}
	names := []string{}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			names = append(names, containers[i].Name)
		}
	}
	for _, container := range pod.Spec.EphemeralContainers {
		names = append(names, container.Name)
	}
	for i, name := range names {
		first := rapid.IntRange(0, 2).Draw(t, "first attempt")
		for attempt := first; attempt < first+rapid.IntRange(0, 3).Draw(t, "attempts"); attempt++ {
			c := drawContainerStatus(t, name, attempt)
			c.CreatedAt = 1000*second + int64(attempt)*100*second + int64(i)*second
			for _, sandbox := range s.sandboxes {
				if sandbox.GetCreatedAt() <= c.GetCreatedAt() {
					s.sandboxOf[c.GetId()] = sandbox.GetId()
				}
			}
			s.containers = append(s.containers, c)
		}
	}
	s.containers = rapid.Permutation(s.containers).Draw(t, "order")
	return s
}

func drawSandbox(t *rapid.T, pod *v1.Pod, attempt int) *runtimeapi.PodSandboxStatus {
	sandbox := &runtimeapi.PodSandboxStatus{
		Id:        fmt.Sprintf("s%d", attempt),
		Metadata:  &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: uint32(attempt)},
		CreatedAt: 900*second + int64(attempt)*200*second,
		State:     pick(t, "sandbox state", runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY),
		Network:   &runtimeapi.PodSandboxNetworkStatus{},
		Linux:     &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
	}
	if pod.Spec.HostNetwork != oneIn(t, 10, "other network") {
		sandbox.Linux.Namespaces.Options.Network = runtimeapi.NamespaceMode_NODE
	}
	if !pod.Spec.HostNetwork {
		sandbox.Network.Ip = pick(t, "ip", "", "10.1.0.7", "10.001.0.7", "fd01::7", "nonsense")
		for range rapid.IntRange(0, 2).Draw(t, "additional") {
			ip := pick(t, "additional ip", "10.1.0.8", "fd01::8", "fd01:0:0::9", "nonsense")
			sandbox.Network.AdditionalIps = append(sandbox.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	if oneIn(t, 20, "no network") {
		sandbox.Network = nil
	}
	return sandbox
}

func drawContainerStatus(t *rapid.T, name string, attempt int) *runtimeapi.ContainerStatus {
	started := 1000*second + int64(attempt)*100*second + 5e8
	c := &runtimeapi.ContainerStatus{
		Id:       fmt.Sprintf("%s-%d", name, attempt),
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: uint32(attempt)},
		State: pick(t, "state", runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED,
			runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_UNKNOWN),
		Image:    &runtimeapi.ImageSpec{Image: "docker.io/library/" + name},
		ImageRef: "sha256:" + name,
		ImageId:  "id-" + name,
		Labels:   map[string]string{"io.kubernetes.container.name": name, "io.kubernetes.pod.uid": "uid"},
		Annotations: map[string]string{
			"io.kubernetes.container.restartCount": strconv.Itoa(attempt),
			"io.kubernetes.container.hash":         "1",
		},
		StartedAt: started,
	}
	switch c.State {
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		c.ExitCode = pick(t, "exit code", int32(0), 0, 1, 3, 137)
		c.Reason = pick(t, "reason", "Completed", "Error", "OOMKilled", "")
		c.Message = pick(t, "message", "", "gone")
		c.FinishedAt = started + 10*second
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		c.StartedAt = 0
	}
	if rapid.Bool().Draw(t, "user") {
		c.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 7, Gid: 8, SupplementalGroups: []int64{8, 9}}}
	}
	if rapid.Bool().Draw(t, "resources") {
		c.Resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
			CpuPeriod:          pick(t, "period", int64(0), 100000),
			CpuQuota:           pick(t, "quota", int64(0), -1, 500, 1000, 20000, 150000),
			CpuShares:          pick(t, "shares", int64(0), 1, 2, 3, 102, 1024),
			MemoryLimitInBytes: pick(t, "memory", int64(0), 1<<20, 64<<20),
		}}
	}
	return c
}
