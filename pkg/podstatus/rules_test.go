package podstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func clone[M proto.Message](message M) M {
	copied, _ := proto.Clone(message).(M)
	return copied
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		name          string
		node, sandbox []string
		hostNetwork   bool
		host, pod     string
	}{
		{"one address", []string{"10.0.0.1"}, []string{"10.1.0.7"}, false, "[10.0.0.1]", "[10.1.0.7]"},
		{"two families", []string{"10.0.0.1", "fd00::1"}, []string{"10.1.0.7", "fd01::7"}, false, "[10.0.0.1 fd00::1]", "[10.1.0.7 fd01::7]"},
		{"the family of the node first", []string{"fd00::1", "10.0.0.1"}, []string{"10.1.0.7", "fd01::7"}, false, "[fd00::1 10.0.0.1]", "[fd01::7 10.1.0.7]"},
		{"several networks", []string{"10.0.0.1"}, []string{"10.1.0.7", "10.2.0.7", "fd01::7", "fd02::7"}, false, "[10.0.0.1]", "[10.1.0.7 fd01::7]"},
		{"an irregular form", []string{"10.0.0.1"}, []string{"10.001.0.07", "fd01:0::0:7"}, false, "[10.0.0.1]", "[10.1.0.7 fd01::7]"},
		{"nonsense", []string{"10.0.0.1"}, []string{"10.1.0.7", "nonsense"}, false, "[10.0.0.1]", "[]"},
		{"no address", []string{"10.0.0.1"}, nil, false, "[10.0.0.1]", "[]"},
		{"host network", []string{"10.0.0.1", "fd00::1"}, nil, true, "[10.0.0.1 fd00::1]", "[10.0.0.1 fd00::1]"},
		{"host network, no node address", nil, nil, true, "[]", "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLife(v1.RestartPolicyAlways, "c")
			l.pod.Spec.HostNetwork = test.hostNetwork
			l.node.IPs = test.node
			status := l.sandbox(test.sandbox...).run("c").sync()
			host, pod := []string{}, []string{}
			for _, ip := range status.HostIPs {
				host = append(host, ip.IP)
			}
			for _, ip := range status.PodIPs {
				pod = append(pod, ip.IP)
			}
			if fmt.Sprint(host) != test.host || fmt.Sprint(pod) != test.pod {
				t.Errorf("the node has %v, the pod %v, want %s and %s", host, pod, test.host, test.pod)
			}
			if len(host) > 0 && status.HostIP != host[0] || len(pod) > 0 && status.PodIP != pod[0] {
				t.Errorf("HostIP %q and PodIP %q are not the first addresses", status.HostIP, status.PodIP)
			}
		})
	}
}

func TestWithoutARuntime(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c")
	status := Generate(Input{Pod: l.pod, Node: l.node, Now: l.now})
	if diff := cmp.Diff(&v1.PodStatus{Phase: v1.PodPending}, status); diff != "" {
		t.Errorf("without a runtime, something is claimed: %s", diff)
	}
	l.pod.Spec.HostNetwork = true
	want := &v1.PodStatus{
		Phase: v1.PodPending, HostIP: "10.0.0.1", HostIPs: []v1.HostIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
	}
	status = Generate(Input{Pod: l.pod, Node: l.node, Now: l.now})
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("host network: %s", diff)
	}
	// A status without the runtime does not count as a previous status.
	l.status = status
	l.sandbox().run("c").want(t, "Running "+allReady+" c=running!")
	// After a restart, the status stands until the runtime answers.
	standing := Generate(Input{Pod: l.pod, Previous: l.status, Now: l.now.Add(time.Hour)})
	if diff := cmp.Diff(l.status, standing); diff != "" {
		t.Errorf("before the runtime answers: %s", diff)
	}
	standing.ContainerStatuses[0].Name = "other"
	if l.status.ContainerStatuses[0].Name != "c" {
		t.Error("the status is not a copy")
	}
}

func TestTimes(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c").tick()
	status := l.sync()
	if got, want := status.StartTime.Unix(), l.sandboxes[0].CreatedAt/1e9; got != want {
		t.Errorf("the pod started at %d, want the time of its sandbox, %d", got, want)
	}
	first := l.now.Unix()
	start := status.StartTime
	for _, c := range status.Conditions {
		if got := c.LastTransitionTime.Unix(); got != first {
			t.Errorf("%s changed at %d, want %d", c.Type, got, first)
		}
	}
	l.exit("c", 1, "Error").tick().sandbox("10.1.0.2").sync()
	second := l.now.Unix()
	for _, c := range l.status.Conditions {
		want := first
		if c.Type == v1.PodReady || c.Type == v1.ContainersReady {
			want = second
		}
		if got := c.LastTransitionTime.Unix(); got != want {
			t.Errorf("%s changed at %d, want %d", c.Type, got, want)
		}
	}
	if !l.status.StartTime.Equal(start) {
		t.Errorf("the start time changed from %v to %v", start, l.status.StartTime)
	}
	if got := newLife(v1.RestartPolicyAlways, "c").sync().StartTime.Unix(); got != 1000 {
		t.Errorf("a pod without a sandbox started at %d, want now", got)
	}
	// A sandbox of the future, after the clock was set back.
	l = newLife(v1.RestartPolicyAlways, "c").sandbox()
	l.now = time.Unix(500, 999)
	if got := l.sync().StartTime; !got.Equal(new(metav1.Unix(500, 0))) {
		t.Errorf("the start time is %v, want now, without a fraction", got)
	}
}

func TestProbes(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "s+", "t+", "a", "b", "c").sandbox("10.1.0.1").run("s")
	l.pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	l.pod.Spec.InitContainers[1].ReadinessProbe = &v1.Probe{}
	l.pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	l.pod.Spec.Containers[1].StartupProbe = &v1.Probe{}
	l.pod.Spec.Containers[2].LivenessProbe = &v1.Probe{}
	l.want(t, "Pending "+prepared+" s=running t=waiting:PodInitializing a=waiting:PodInitializing b=waiting:PodInitializing c=waiting:PodInitializing")
	if got, want := condition(t, l.status, v1.PodInitialized).Message,
		"containers with incomplete status: [s t], containers whose probe results are not known here: [s]"; got != want {
		t.Errorf("Initialized: %s, want %s", got, want)
	}
	l.run("t", "a", "b", "c").want(t, "Running "+initialized+" s=running t=running a=running b=running c=running!")
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if got, want := condition(t, l.status, kind).Message,
			"containers with unready status: [s t a b], containers whose probe results are not known here: [s t a b]"; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	if started := l.status.ContainerStatuses; !*started[0].Started || *started[1].Started || !*started[2].Started {
		t.Errorf("only b is not known to have started: %v", started)
	}
	// What has ended needs no probe.
	l.exit("a", 1, "Error")
	if got, want := condition(t, l.sync(), v1.PodReady).Message,
		"containers with unready status: [s t a b], containers whose probe results are not known here: [s t b]"; got != want {
		t.Errorf("Ready: %s, want %s", got, want)
	}
}

func TestReadinessGates(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c")
	l.pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/a"}, {ConditionType: "example.com/b"}}
	l.want(t, "Running "+initialized+" ContainersReady c=running!")
	if got, want := condition(t, l.status, v1.PodReady), `corresponding condition of pod readiness gate "example.com/a" does not exist., `+
		`corresponding condition of pod readiness gate "example.com/b" does not exist.`; got.Message != want || got.Reason != "ReadinessGatesNotReady" {
		t.Errorf("Ready: %s: %s, want %s", got.Reason, got.Message, want)
	}
	l.pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/a", Status: v1.ConditionTrue}, {Type: "example.com/b", Status: v1.ConditionFalse}}
	if got, want := condition(t, l.sync(), v1.PodReady).Message, `the status of pod readiness gate "example.com/b" is not "True", but False`; got != want {
		t.Errorf("Ready: %s, want %s", got, want)
	}
	l.pod.Status.Conditions[1].Status = v1.ConditionTrue
	l.want(t, "Running example.com/a example.com/b "+allReady+" c=running!")
}

func TestPhaseStays(t *testing.T) {
	l := newLife(v1.RestartPolicyNever, "c").sandbox("10.1.0.1").run("c").exit("c", 0, "Completed")
	l.want(t, "Succeeded "+initialized+" c=Completed:0")
	before := l.status
	l.run("c")
	if diff := cmp.Diff(before, l.sync()); diff != "" {
		t.Errorf("a container that ended for good runs again: %s", diff)
	}
	// With OnFailure, the phase stays although a container can run again.
	l = newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c")
	l.status = &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "why"}
	if status := l.sync(); status.Phase != v1.PodFailed || status.Reason != "Evicted" || status.Message != "why" {
		t.Errorf("the phase is %s, %s: %s", status.Phase, status.Reason, status.Message)
	}
	l.status = nil
	l.pod.Status = v1.PodStatus{Phase: v1.PodSucceeded}
	if status := l.sync(); status.Phase != v1.PodSucceeded {
		t.Errorf("the phase is %s, and that of the apiserver Succeeded", status.Phase)
	}
}

func TestResources(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c")
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	l.pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("200m", "128Mi")}
	report := func(linux *runtimeapi.LinuxContainerResources) {
		l.set("c", func(c *runtimeapi.ContainerStatus) { c.Resources = &runtimeapi.ContainerResources{Linux: linux} })
	}
	want := func(requests, limits v1.ResourceList) {
		t.Helper()
		status := l.sync().ContainerStatuses[0]
		if got := (v1.ResourceRequirements{Requests: requests, Limits: limits}); !equality.Semantic.DeepEqual(got, *status.Resources) {
			t.Errorf("the resources are %v, want %v", status.Resources, got)
		}
		if !equality.Semantic.DeepEqual(status.AllocatedResources, list("100m", "64Mi")) {
			t.Errorf("the allocated resources are %v", status.AllocatedResources)
		}
	}
	// 102 shares are 100m.
	report(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 20000, CpuShares: 102, MemoryLimitInBytes: 128 << 20})
	want(list("100m", "64Mi"), list("200m", "128Mi"))
	// A resize that the runtime has done.
	report(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 40000, CpuShares: 204, MemoryLimitInBytes: 256 << 20})
	want(list("200m", "64Mi"), list("400m", "256Mi"))
	// The runtime does not report them any more.
	report(nil)
	want(list("200m", "64Mi"), list("400m", "256Mi"))
	// Less than the runtime can express.
	tiny := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c")
	tiny.pod.Spec.Containers[0].Resources.Requests = list("1m", "64Mi")
	tiny.set("c", func(c *runtimeapi.ContainerStatus) {
		c.Resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 2}}
	})
	if cpu := tiny.sync().ContainerStatuses[0].Resources.Requests.Cpu().MilliValue(); cpu != 1 {
		t.Errorf("a request of 1m is %dm", cpu)
	}
	l.exit("c", 0, "Completed")
	want(list("100m", "64Mi"), list("200m", "128Mi"))
	if l.status.QOSClass != v1.PodQOSBurstable || !equality.Semantic.DeepEqual(l.status.AllocatedResources, list("100m", "64Mi")) {
		t.Errorf("the pod is %s with %v", l.status.QOSClass, l.status.AllocatedResources)
	}
	l.pod.Spec.Containers[0].Resources.Requests = list("200m", "128Mi")
	if status := l.sync(); status.QOSClass != v1.PodQOSGuaranteed {
		t.Errorf("the pod is %s, want Guaranteed", status.QOSClass)
	}
	delete(l.pod.Spec.Containers[0].Resources.Requests, v1.ResourceMemory)
	if status := l.sync(); status.QOSClass != v1.PodQOSBurstable {
		t.Errorf("the pod is %s, want Burstable", status.QOSClass)
	}
}

func TestVolumeMounts(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c")
	l.pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "a", MountPath: "/a"},
		{Name: "b", MountPath: "/b", ReadOnly: true},
		{Name: "c", MountPath: "c", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyIfPossible)},
	}
	want := func(what string, mode *v1.RecursiveReadOnlyMode) {
		t.Helper()
		if diff := cmp.Diff([]v1.VolumeMountStatus{
			{Name: "a", MountPath: "/a"},
			{Name: "b", MountPath: "/b", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyDisabled)},
			{Name: "c", MountPath: "c", ReadOnly: true, RecursiveReadOnly: mode},
		}, l.sync().ContainerStatuses[0].VolumeMounts); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	want("without a container", nil)
	l.sandbox("10.1.0.1").run("c").set("c", func(c *runtimeapi.ContainerStatus) {
		c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/b"}, {ContainerPath: "/c", Readonly: true, RecursiveReadOnly: true}}
	})
	want("with a container", new(v1.RecursiveReadOnlyEnabled))
	l.remove("c", 0)
	want("after the container", new(v1.RecursiveReadOnlyEnabled))
	l.run("c").set("c", func(c *runtimeapi.ContainerStatus) { c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/c"}} })
	want("with a mount that is not", new(v1.RecursiveReadOnlyDisabled))
}

func TestMessagesAreTruncated(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c", "d").sandbox("10.1.0.1").run("c").exit("c", 1, "Error")
	l.set("c", func(c *runtimeapi.ContainerStatus) { c.Message = strings.Repeat("x", 20<<10) })
	if got := len(l.sync().ContainerStatuses[0].State.Terminated.Message); got != 6<<10 {
		t.Errorf("the message has %d bytes, want 6144", got)
	}
}

// A container that no kubelet created has neither labels nor annotations.
func TestContainerOfAnotherClient(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "c").sandbox("10.1.0.1").run("c").set("c", func(c *runtimeapi.ContainerStatus) {
		c.Labels, c.Annotations, c.Metadata = nil, nil, &runtimeapi.ContainerMetadata{Name: "c", Attempt: 3}
	})
	l.want(t, "Running "+allReady+" c=running*3!")
}

// Generate neither changes its input nor shares memory with it, and does not depend on the
// order of the record.
func TestPureFunction(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "i!", "s+", "c", "d").sandbox("10.1.0.1").run("i").exit("i", 0, "Completed").run("s", "c").exit("c", 1, "Error").run("c", "d")
	l.pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	l.pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/a"}, {Type: v1.DisruptionTarget}}
	l.set("c", func(c *runtimeapi.ContainerStatus) {
		c.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{SupplementalGroups: []int64{1, 2}}}
	})
	l.sync()
	l.exit("d", 0, "Completed").remove("c", 1)
	in := l.input()
	snapshot := func(in Input) string {
		data, err := json.Marshal([]any{in.Pod, in.Record, in.Previous})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := snapshot(in)
	status := Generate(in)
	for range 10 {
		slices.Reverse(in.Record.Containers)
		slices.Reverse(in.Record.Sandboxes)
		if diff := cmp.Diff(status, Generate(in), protocmp.Transform()); diff != "" {
			t.Fatalf("another order gives another status: %s", diff)
		}
		in.Record.Containers = append(in.Record.Containers[1:], in.Record.Containers[0])
	}
	in = l.input()
	spoil(status)
	if after := snapshot(in); after != before {
		t.Errorf("the input was\n%s\nand is\n%s", before, after)
	}
}

// spoil changes all that a status refers to.
func spoil(status *v1.PodStatus) {
	for i := range status.Conditions {
		status.Conditions[i].Status = "spoiled"
	}
	for _, statuses := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			*c.Started = !*c.Started
			if c.Resources != nil && c.Resources.Requests != nil {
				c.Resources.Requests["spoiled"] = resource.MustParse("1")
				c.AllocatedResources["spoiled"] = resource.MustParse("1")
			}
			if c.User != nil {
				c.User.Linux.SupplementalGroups[0] = 7
			}
			for _, terminated := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if terminated != nil {
					terminated.Reason = "spoiled"
				}
			}
			if c.State.Running != nil {
				c.State.Running.StartedAt = metav1.Time{}
			}
		}
	}
	status.StartTime.Time = time.Time{}
	for name := range status.AllocatedResources {
		delete(status.AllocatedResources, name)
	}
	for name := range status.Resources.Requests {
		delete(status.Resources.Requests, name)
	}
}
