package podstatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// life is a pod and its containers in the runtime. Time passes only by tick.
type life struct {
	pod        *v1.Pod
	node       Node
	now        time.Time
	sandboxes  []*runtimeapi.PodSandboxStatus
	containers []*runtimeapi.ContainerStatus
	status     *v1.PodStatus
	started    int
}

// newLife returns a pod of the file source with containers: "name", "name!" for an init
// container and "name+" for a sidecar.
func newLife(policy v1.RestartPolicy, containers ...string) *life {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "default", UID: "uid",
			Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec:   v1.PodSpec{RestartPolicy: policy},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, name := range containers {
		container := v1.Container{Name: strings.Trim(name, "!+"), Image: "image"}
		switch {
		case strings.HasSuffix(name, "!"):
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		case strings.HasSuffix(name, "+"):
			container.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
	return &life{pod: pod, node: testNode, now: time.Unix(1000, 0)}
}

func (l *life) tick() *life {
	l.now = l.now.Add(10 * time.Second)
	return l
}

// sandbox starts a sandbox. Earlier sandboxes are no longer ready.
func (l *life) sandbox(ips ...string) *life {
	l.stopSandboxes()
	sandbox := &runtimeapi.PodSandboxStatus{
		Id:        fmt.Sprintf("s%d", len(l.sandboxes)),
		Metadata:  &runtimeapi.PodSandboxMetadata{Attempt: uint32(len(l.sandboxes))},
		CreatedAt: l.tick().now.UnixNano(),
		Network:   &runtimeapi.PodSandboxNetworkStatus{},
		Linux:     &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
	}
	if l.pod.Spec.HostNetwork {
		sandbox.Linux.Namespaces.Options.Network = runtimeapi.NamespaceMode_NODE
	}
	for i, ip := range ips {
		if i == 0 {
			sandbox.Network.Ip = ip
		} else {
			sandbox.Network.AdditionalIps = append(sandbox.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	l.sandboxes = append(l.sandboxes, sandbox)
	return l
}

func (l *life) stopSandboxes() *life {
	for i, sandbox := range l.sandboxes {
		l.sandboxes[i] = clone(sandbox)
		l.sandboxes[i].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return l
}

// run starts the next attempt of containers.
func (l *life) run(names ...string) *life {
	for _, name := range names {
		attempt := 0
		for _, container := range l.containers {
			if containerName(container) == name {
				attempt = int(restartCount(container)) + 1
			}
		}
		l.tick().started++
		l.containers = append(l.containers, &runtimeapi.ContainerStatus{
			Id:          fmt.Sprintf("%s-%d", name, l.started),
			State:       runtimeapi.ContainerState_CONTAINER_RUNNING,
			CreatedAt:   l.now.UnixNano(),
			StartedAt:   l.now.UnixNano(),
			Image:       &runtimeapi.ImageSpec{Image: "image"},
			ImageRef:    "sha256:1",
			Labels:      map[string]string{containerNameLabel: name},
			Annotations: map[string]string{restartCountAnnotation: fmt.Sprint(attempt)},
		})
	}
	return l
}

// set changes the newest attempt of a container.
func (l *life) set(name string, change func(*runtimeapi.ContainerStatus)) *life {
	for i, container := range slices.Backward(l.containers) {
		if containerName(container) == name {
			l.containers[i] = clone(container)
			change(l.containers[i])
			return l
		}
	}
	panic("no container " + name)
}

func (l *life) exit(name string, code int32, reason string) *life {
	l.tick()
	return l.set(name, func(c *runtimeapi.ContainerStatus) {
		c.State, c.ExitCode, c.Reason, c.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, code, reason, l.now.UnixNano()
	})
}

// remove removes all attempts of a container, except for the newest ones: keep is their number.
func (l *life) remove(name string, keep int) *life {
	for i, container := range slices.Backward(l.containers) {
		if containerName(container) == name {
			if keep--; keep < 0 {
				l.containers = slices.Delete(slices.Clone(l.containers), i, i+1)
			}
		}
	}
	return l
}

func (l *life) input() Input {
	return Input{
		Pod: l.pod, Record: &Record{slices.Clone(l.sandboxes), slices.Clone(l.containers)},
		Previous: l.status, Node: l.node, Now: l.now,
	}
}

func (l *life) sync() *v1.PodStatus {
	l.status = Generate(l.input())
	return l.status
}

// summary is the phase, the conditions that are true, and the containers: the first letter
// of the state, the restart count, and "!" if it is ready.
func summary(status *v1.PodStatus) string {
	words := []string{string(status.Phase)}
	for _, condition := range status.Conditions {
		if condition.Status == v1.ConditionTrue && condition.Type != v1.PodScheduled {
			words = append(words, string(condition.Type))
		}
	}
	for _, container := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		state := "?"
		switch {
		case container.State.Running != nil:
			state = "running"
		case container.State.Waiting != nil:
			state = "waiting:" + container.State.Waiting.Reason
		case container.State.Terminated != nil:
			state = fmt.Sprintf("%s:%d", container.State.Terminated.Reason, container.State.Terminated.ExitCode)
		}
		if last := container.LastTerminationState.Terminated; last != nil {
			state += fmt.Sprintf("<%s:%d", last.Reason, last.ExitCode)
		}
		if container.RestartCount > 0 {
			state += fmt.Sprintf("*%d", container.RestartCount)
		}
		if container.Ready {
			state += "!"
		}
		words = append(words, container.Name+"="+state)
	}
	return strings.Join(words, " ")
}

func (l *life) want(t *testing.T, want string) {
	t.Helper()
	if got := summary(l.sync()); got != want {
		t.Errorf("the status is\n\t%s\nwant\n\t%s", got, want)
	}
	before := l.status
	if diff := cmp.Diff(before, l.sync()); diff != "" {
		t.Errorf("a second status of the same state differs: %s", diff)
	}
}

func condition(t *testing.T, status *v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	t.Helper()
	found := findCondition(status.Conditions, kind)
	if found == nil {
		t.Fatalf("no condition %s in %v", kind, status.Conditions)
	}
	return *found
}

const (
	prepared    = "PodReadyToStartContainers"
	initialized = prepared + " Initialized"
	allReady    = initialized + " Ready ContainersReady"
)
