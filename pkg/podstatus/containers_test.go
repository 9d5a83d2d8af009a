package podstatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
	for _, c := range l.containers { // the clock was set back before each attempt
		c.CreatedAt = -c.GetCreatedAt()
	}
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

func TestInitializedStays(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "i!", "c").sandbox("10.1.0.1").run("i").exit("i", 0, "Completed")
	l.want(t, "Pending "+initialized+" i=Completed:0! c=waiting:PodInitializing")
	l.run("i").want(t, "Pending "+initialized+" i=running<Completed:0*1 c=waiting:PodInitializing")
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
