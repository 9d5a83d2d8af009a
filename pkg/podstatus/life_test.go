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

func TestInitContainerFails(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]string{
		v1.RestartPolicyAlways:    "Pending " + prepared + " i=Error:1 c=waiting:PodInitializing",
		v1.RestartPolicyOnFailure: "Pending " + prepared + " i=Error:1 c=waiting:PodInitializing",
		v1.RestartPolicyNever:     "Failed " + prepared + " i=Error:1 c=waiting:PodInitializing",
	} {
		t.Run(string(policy), func(t *testing.T) {
			l := newLife(policy, "i!", "c").sandbox("10.1.0.1").run("i")
			l.want(t, "Pending "+prepared+" i=running c=waiting:PodInitializing")
			l.exit("i", 1, "Error")
			if policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure {
				// It failed and is restarted.
				l.want(t, want)
				l.run("i").want(t, "Pending "+prepared+" i=running<Error:1*1 c=waiting:PodInitializing")
				l.exit("i", 0, "Completed").run("c").want(t, "Running "+allReady+" i=Completed:0<Error:1*1! c=running!")
				return
			}
			l.want(t, want)
			l.stopSandboxes().want(t, "Failed i=Error:1 c=waiting:PodInitializing")
			if got := condition(t, l.status, v1.PodReady).Reason; got != "PodFailed" {
				t.Errorf("Ready has the reason %q", got)
			}
		})
	}
}

func TestSidecarRestarts(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "s+", "i!", "c").sandbox("10.1.0.1").run("s")
	l.want(t, "Pending "+prepared+" s=running! i=waiting:PodInitializing c=waiting:PodInitializing")
	l.run("i").exit("i", 0, "Completed").run("c")
	l.want(t, "Running "+allReady+" s=running! i=Completed:0! c=running!")
	l.exit("s", 2, "Error").want(t, "Running "+initialized+" s=Error:2 i=Completed:0! c=running!")
	l.run("s").want(t, "Running "+allReady+" s=running<Error:2*1! i=Completed:0! c=running!")
	l.set("s", func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_CREATED })
	l.want(t, "Running "+initialized+" s=waiting:<Error:2*1 i=Completed:0! c=running!")
}

func TestSidecarOfACompletedPod(t *testing.T) {
	l := newLife(v1.RestartPolicyNever, "s+", "c").sandbox("10.1.0.1").run("s", "c")
	l.exit("c", 0, "Completed").want(t, "Running "+initialized+" s=running! c=Completed:0")
	l.exit("s", 137, "Error").want(t, "Succeeded "+initialized+" s=Error:137 c=Completed:0")
}

func TestInitContainerIsRemoved(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "i!", "c").sandbox("10.1.0.1").run("i").exit("i", 0, "Completed").run("c").remove("i", 0)
	l.want(t, "Running "+allReady+" i=Completed:0! c=running!")
	if message := l.status.InitContainerStatuses[0].State.Terminated.Message; !strings.HasPrefix(message, "Unable to get init container status") {
		t.Errorf("the message is %q", message)
	}
	// Its end is known from the status before, and a sidecar does not complete.
	l = newLife(v1.RestartPolicyAlways, "i!", "s+", "c").sandbox("10.1.0.1").run("i").exit("i", 0, "Completed")
	l.sync()
	l.run("c").remove("i", 0).want(t, "Pending "+initialized+" i=Completed:0! s=waiting:PodInitializing c=running!")
	if message := l.status.InitContainerStatuses[0].State.Terminated.Message; message != "" {
		t.Errorf("the message is %q", message)
	}
}

func TestSeveralAttempts(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1")
	for n := range 4 {
		l.run("c").exit("c", int32(n), fmt.Sprintf("End%d", n))
	}
	l.want(t, "Running "+initialized+" c=End3:3<End2:2*3")
	l.run("c").want(t, "Running "+allReady+" c=running<End3:3*4!")
	slices.Reverse(l.containers)
	l.want(t, "Running "+allReady+" c=running<End3:3*4!")
}

// The runtime may keep no dead container, as if the kubelet had removed them.
func TestDeadContainersAreRemoved(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c").exit("c", 137, "OOMKilled")
	l.want(t, "Running "+initialized+" c=OOMKilled:137")
	finished := l.status.ContainerStatuses[0].State.Terminated.FinishedAt
	l.remove("c", 0).want(t, "Running "+initialized+" c=OOMKilled:137")
	// A new container does not know of earlier ones.
	l.run("c").want(t, "Running "+allReady+" c=running<OOMKilled:137*1!")
	if last := l.status.ContainerStatuses[0].LastTerminationState.Terminated; last.ContainerID != "containerd://c-1" || !last.FinishedAt.Equal(&finished) {
		t.Errorf("the last state is %v", last)
	}
}

func TestContainerDisappears(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c", "d").sandbox("10.1.0.1").run("c", "d")
	l.want(t, "Running "+allReady+" c=running! d=running!")
	l.remove("c", 0).want(t, "Running "+initialized+" c=waiting:ContainerCreating<ContainerStatusUnknown:137*1 d=running!")
}

func TestUnknownState(t *testing.T) {
	unknown := func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }
	l := newLife(v1.RestartPolicyNever, "c").sandbox("10.1.0.1").run("c").set("c", unknown)
	l.want(t, "Pending "+initialized+" c=waiting:")
	l = newLife(v1.RestartPolicyNever, "c").sandbox("10.1.0.1").run("c")
	l.want(t, "Running "+allReady+" c=running!")
	// It ran, so it has ended, and does not wait again.
	l.set("c", unknown).want(t, "Failed "+initialized+" c=ContainerStatusUnknown:137*1")
}

func TestSandboxes(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "s+", "c")
	l.want(t, "Pending s=waiting:PodInitializing c=waiting:PodInitializing")
	l.sandbox("10.1.0.1").run("s", "c").want(t, "Running "+allReady+" s=running! c=running!")
	l.exit("s", 137, "Error").exit("c", 137, "Error").stopSandboxes()
	l.want(t, "Running Initialized s=Error:137 c=Error:137")
	if l.status.PodIP != "10.1.0.1" {
		t.Errorf("a stopped pod has the address %q", l.status.PodIP)
	}
	// The containers of the old sandbox don't count for the new one.
	l.sandbox("10.1.0.2").run("s").set("s", func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_CREATED })
	l.want(t, "Running "+initialized+" s=waiting:<Error:137*1 c=Error:137")
	if l.status.PodIP != "10.1.0.2" || len(l.status.PodIPs) != 1 {
		t.Errorf("the pod has the addresses %v", l.status.PodIPs)
	}
	// The clock was set back: the attempt counts.
	l.sandboxes[1].CreatedAt = 1
	if l.sync(); l.status.PodIP != "10.1.0.2" {
		t.Errorf("the pod has the address %s", l.status.PodIP)
	}
	for _, sandbox := range l.sandboxes {
		sandbox.State = runtimeapi.PodSandboxState_SANDBOX_READY
	}
	if got := condition(t, l.sync(), v1.PodReadyToStartContainers).Status; got != v1.ConditionFalse {
		t.Errorf("two ready sandboxes: PodReadyToStartContainers is %s", got)
	}
}

func TestSandboxWithoutAnAddress(t *testing.T) {
	newLife(v1.RestartPolicyAlways, "c").sandbox().want(t, "Pending Initialized c=waiting:ContainerCreating")
	l := newLife(v1.RestartPolicyAlways, "c")
	l.pod.Spec.HostNetwork = true
	l.sandbox().want(t, "Pending "+initialized+" c=waiting:ContainerCreating")
	// A sandbox in the host's network is not used by a pod with a network of its own.
	l.pod.Spec.HostNetwork = false
	l.sandboxes[0].Network.Ip = "10.1.0.1"
	l.want(t, "Pending Initialized c=waiting:ContainerCreating")
}

func TestInitializedStays(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "i!", "c").sandbox("10.1.0.1").run("i").exit("i", 0, "Completed")
	l.want(t, "Pending "+initialized+" i=Completed:0! c=waiting:PodInitializing")
	l.run("i").want(t, "Pending "+initialized+" i=running<Completed:0*1 c=waiting:PodInitializing")
}

func TestContainersOfAnEarlierSandbox(t *testing.T) {
	probed := func(l *life) *life {
		l.pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		return l
	}
	// A sidecar that has not started makes a pod pending until a container of the sandbox runs.
	l := probed(newLife(v1.RestartPolicyAlways, "s+", "c")).sandbox("10.1.0.1").run("s", "c")
	l.want(t, "Running "+initialized+" s=running c=running!")
	l.exit("c", 1, "Error").exit("s", 1, "Error").sandbox("10.1.0.2").run("s")
	l.want(t, "Pending "+initialized+" s=running<Error:1*1 c=Error:1")
}

func TestDeletion(t *testing.T) {
	deleted := func(source string) *life {
		l := newLife(v1.RestartPolicyAlways, "c", "d").sandbox("10.1.0.1").run("c", "d")
		l.pod.Annotations["kubernetes.io/config.source"] = source
		l.want(t, "Running "+allReady+" c=running! d=running!")
		l.pod.DeletionTimestamp = &metav1.Time{Time: l.now}
		return l
	}
	l := deleted("api")
	l.exit("c", 0, "Completed").want(t, "Running "+initialized+" c=Completed:0 d=running!")
	l.exit("d", 0, "Completed").want(t, "Running "+initialized+" c=Completed:0 d=Completed:0")
	l.stopSandboxes().want(t, "Succeeded Initialized c=Completed:0 d=Completed:0")
	l = deleted("api").exit("c", 0, "Completed").exit("d", 143, "Error").stopSandboxes()
	l.want(t, "Failed Initialized c=Completed:0 d=Error:143")
	l = deleted("api").exit("c", 0, "Completed").remove("d", 0).stopSandboxes()
	l.want(t, "Failed Initialized c=Completed:0 d=ContainerStatusUnknown:137<ContainerStatusUnknown:137")
	l = deleted("file").exit("c", 0, "Completed").exit("d", 0, "Completed").stopSandboxes()
	l.want(t, "Running Initialized c=Completed:0 d=Completed:0")
	l = newLife(v1.RestartPolicyAlways, "i!", "c")
	l.pod.Annotations["kubernetes.io/config.source"] = "api"
	l.pod.DeletionTimestamp = &metav1.Time{Time: l.now}
	l.want(t, "Failed i=ContainerStatusUnknown:137 c=waiting:PodInitializing")
}

// An impossible status is refused. A container that is known to have ended stays ended.
func TestDeletionAfterARefusedStatus(t *testing.T) {
	l := newLife(v1.RestartPolicyNever, "c", "d").sandbox("10.1.0.1").run("c", "d").exit("c", 0, "Completed")
	l.pod.Annotations["kubernetes.io/config.source"] = "api"
	l.want(t, "Running "+initialized+" c=Completed:0 d=running!")
	l.pod.DeletionTimestamp = &metav1.Time{Time: l.now}
	l.set("c", func(c *runtimeapi.ContainerStatus) { c.State = runtimeapi.ContainerState_CONTAINER_CREATED })
	l.remove("d", 0).stopSandboxes()
	if got, want := summary(l.sync()), "Failed "+initialized+" c=Completed:0 d=ContainerStatusUnknown:137!"; got != want {
		t.Errorf("the status is\n\t%s\nwant\n\t%s", got, want)
	}
}

// A container whose own policy is Never runs again in a pod with OnFailure.
func TestRefusalFollowsThePolicyOfThePod(t *testing.T) {
	l := newLife(v1.RestartPolicyOnFailure, "c").sandbox("10.1.0.1").run("c").exit("c", 1, "Error")
	l.pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	l.want(t, "Failed "+initialized+" c=Error:1")
	l.run("c").want(t, "Failed "+initialized+" c=running<Error:1*1!")
}

func TestPolicyOfAContainer(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c", "d").sandbox("10.1.0.1").run("c", "d")
	for i := range l.pod.Spec.Containers {
		l.pod.Spec.Containers[i].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	}
	l.pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	l.exit("c", 42, "Error").exit("d", 0, "Completed").want(t, "Running "+initialized+" c=Error:42 d=Completed:0")
	l.run("c").exit("c", 1, "Error").want(t, "Failed "+initialized+" c=Error:1<Error:42*1 d=Completed:0")
}

func TestRestartOfAllContainers(t *testing.T) {
	l := newLife(v1.RestartPolicyNever, "c", "d").sandbox("10.1.0.1").run("c", "d")
	l.pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	l.pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{5}},
	}}
	l.want(t, "Running "+allReady+" c=running! d=running!")
	l.exit("c", 5, "Error").want(t, "Running "+initialized+" AllContainersRestarting c=Error:5 d=running!")
	if got := summary(l.remove("d", 0).sync()); got != "Running "+initialized+" AllContainersRestarting c=Error:5 d=waiting:RestartingAllContainers<RestartingAllContainers:137*1" {
		t.Errorf("the status is %s", got)
	}
	if got := summary(l.remove("c", 0).sync()); got != "Running "+initialized+" c=waiting:RestartingAllContainers<RestartingAllContainers:137*1 d=waiting:ContainerCreating<RestartingAllContainers:137*1" {
		t.Errorf("the status is %s", got)
	}
	l.run("c", "d").want(t, "Running "+allReady+" c=running<RestartingAllContainers:137*1! d=running<RestartingAllContainers:137*1!")
}

func TestEphemeralContainers(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c")
	l.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "z"}}, {EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
	l.want(t, "Running "+allReady+" c=running! e=waiting:ContainerCreating z=waiting:ContainerCreating")
	l.run("e").want(t, "Running "+allReady+" c=running! e=running z=waiting:ContainerCreating")
	if started := l.status.EphemeralContainerStatuses[0].Started; started != nil {
		t.Errorf("Started of an ephemeral container is %v", *started)
	}
	l.exit("e", 1, "Error").want(t, "Running "+allReady+" c=running! e=Error:1 z=waiting:ContainerCreating")
}
