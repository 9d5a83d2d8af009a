package podstatus

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
