package podstatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMatchesRuntime: the last status of a kubelet that is away stands until a container differs from it.
func TestMatchesRuntime(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "init!", "a", "b").sandbox("10.0.0.1").run("init").exit("init", 0, "Completed").run("a", "b")
	status := l.sync()
	if !MatchesRuntime(status, nil) || !MatchesRuntime(status, l.input().Record) {
		t.Error("it does not stand although nothing changed")
	}
	waits := status.DeepCopy()
	waits.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ContainerID: waits.ContainerStatuses[0].ContainerID}
	waits.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	if MatchesRuntime(waits, l.input().Record) {
		t.Error("a container that runs waits")
	}
	l.exit("a", 1, "Error")
	if MatchesRuntime(status, l.input().Record) {
		t.Error("a container has ended")
	}
	if !MatchesRuntime(waits, l.input().Record) {
		t.Error("a container that has ended waits for its next attempt, and that does not stand")
	}
	l.tick().run("a")
	if MatchesRuntime(status, l.input().Record) || MatchesRuntime(waits, l.input().Record) {
		t.Error("a container has started again")
	}
	if status = l.sync(); !MatchesRuntime(status, l.input().Record) {
		t.Error("the new status does not stand")
	}
	if l.remove("init", 0); !MatchesRuntime(status, l.input().Record) {
		t.Error("a container that had ended is gone")
	}
	if l.remove("a", 0); MatchesRuntime(status, l.input().Record) {
		t.Error("a container that ran is gone")
	}
	if MatchesRuntime(&v1.PodStatus{}, l.input().Record) {
		t.Error("the runtime has a container that the status does not have")
	}
}

// TestNewerThanRuntime shows which statuses are newer than the record of the runtime.
func TestNewerThanRuntime(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "a").sandbox("10.0.0.1").run("a")
	first, running := l.sync(), l.input().Record
	l.exit("a", 1, "Error")
	ended, exited := l.sync(), l.input().Record
	l.tick().run("a")
	second, again := l.sync(), l.input().Record
	other := second.DeepCopy()
	other.ContainerStatuses[0].RestartCount = 0
	for name, test := range map[string]struct {
		status *v1.PodStatus
		record *Record
		want   bool
	}{
		"the same":                               {first, running, false},
		"it ended":                               {ended, running, true},
		"it started again":                       {second, running, true},
		"it started again after an end":          {second, exited, true},
		"it runs, and has ended":                 {first, exited, false},
		"it runs, and has started again":         {first, again, false},
		"it ended, and has started again":        {ended, again, false},
		"another attempt, not of a higher count": {other, running, false},
		"nothing is reported":                    {first, new(Record), false},
		"no container":                           {new(v1.PodStatus), running, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewerThanRuntime(test.status, test.record); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	earlier := second.DeepCopy()
	earlier.ContainerStatuses[0].State.Running.StartedAt = metav1.Unix(1, 0)
	if NewerThanRuntime(earlier, running) {
		t.Error("an attempt of an earlier life of the runtime is ahead")
	}
}

// TestOnlyKubelet shows which statuses say what only a kubelet knows. Generate says none of that.
func TestOnlyKubelet(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "a").sandbox("10.0.0.1").run("a")
	l.pod.Spec.Containers[0].ReadinessProbe, l.pod.Spec.Containers[0].StartupProbe = new(v1.Probe), new(v1.Probe)
	ours := l.sync()
	for name, change := range map[string]func(*v1.PodStatus){
		"ready":   func(s *v1.PodStatus) { s.ContainerStatuses[0].Ready = true },
		"started": func(s *v1.PodStatus) { s.ContainerStatuses[0].Started = new(true) },
		"waits": func(s *v1.PodStatus) {
			s.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull"}}
		},
		"evicted": func(s *v1.PodStatus) { s.Reason = "Evicted" },
	} {
		t.Run(name, func(t *testing.T) {
			status := ours.DeepCopy()
			if change(status); !OnlyKubelet(l.pod, status) {
				t.Error("it is taken for our own")
			}
		})
	}
	if OnlyKubelet(l.pod, ours) || OnlyKubelet(l.pod, newLife(v1.RestartPolicyAlways, "a").sync()) {
		t.Error("our own status is taken for that of a kubelet")
	}
}

// TestWithAddresses adds the addresses that a kubelet without an apiserver leaves empty, and no others.
func TestWithAddresses(t *testing.T) {
	l := newLife(v1.RestartPolicyAlways, "a").sandbox("10.0.0.1").run("a")
	ours := l.sync()
	theirs := ours.DeepCopy()
	theirs.HostIP, theirs.HostIPs, theirs.PodIP, theirs.PodIPs = "", nil, "", nil
	before := theirs.DeepCopy()
	if diff := cmp.Diff(ours, WithAddresses(theirs, l.input())); diff != "" {
		t.Errorf("without an apiserver:\n%s", diff)
	}
	if diff := cmp.Diff(before, theirs); diff != "" {
		t.Errorf("the status of the kubelet was changed:\n%s", diff)
	}
	known := theirs.DeepCopy()
	known.HostIP = "198.51.100.1"
	rejected := &v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeAffinity"}
	for _, status := range []*v1.PodStatus{known, rejected} {
		if got := WithAddresses(status, l.input()); got != status {
			t.Errorf("%+v", got)
		}
	}
	l.pod.Spec.HostNetwork = true
	if got := WithAddresses(theirs, Input{Pod: l.pod, Node: l.node}); got.PodIP != l.node.IPs[0] || got.HostIP != l.node.IPs[0] {
		t.Errorf("in the network of the host: %q, %q", got.PodIP, got.HostIP)
	}
}

// The health of volumes is the kubelet's. A status of it that has none keeps that of the apiserver.
func TestMergeVolumeHealth(t *testing.T) {
	health := func(name string) v1.PodStatus { return v1.PodStatus{VolumeHealth: []v1.PodVolumeHealth{{Name: name}}} }
	for name, test := range map[string]struct {
		apiserver, kubelet v1.PodStatus
		want               string
	}{
		"only the kubelet's":   {kubelet: health("new"), want: "new"},
		"only the apiserver's": {apiserver: health("old"), want: "old"},
		"both":                 {apiserver: health("old"), kubelet: health("new"), want: "new"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(&test.apiserver, &test.kubelet).VolumeHealth; len(got) != 1 || got[0].Name != test.want {
				t.Errorf("%v, want %s", got, test.want)
			}
		})
	}
}
