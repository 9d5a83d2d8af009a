package syncloop

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// The status that a kubelet wrote in the mirror pod counts, not one that podconfigd wrote, nor
// one of another version of the static pod.
func TestStatusOfAMirrorPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		a, now := static("a"), metav1.Now()
		h.add("file", a)
		mirror := runningMirror(a, v1.PodFailed)
		h.add("api", mirror)
		h.expect(t, "ADD a:Pending", "ADD mirror-of-a:Failed on 198.51.100.1 containerd://1", "RECONCILE status a:Failed on 198.51.100.1 containerd://1")
		h.running("a", "1")
		h.expect(t)
		unwritten := mirror.DeepCopy()
		unwritten.Status = v1.PodStatus{Phase: v1.PodPending}
		ours := mirror.DeepCopy()
		ours.Annotations[config.OwnMirrorAnnotationKey] = "node1"
		other := mirror.DeepCopy()
		other.Annotations[v1.MirrorPodAnnotationKey] = "another"
		adopted := ours.DeepCopy()
		adopted.Annotations[config.OwnMirrorAnnotationKey] = config.AdoptedMirror
		for _, m := range []*v1.Pod{unwritten, mirror, ours, adopted, other, mirror} {
			h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{m}})
		}
		h.update(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: []*v1.Pod{mirror}})
		kubelet, own := "RECONCILE status a:Failed on 198.51.100.1 containerd://1", "RECONCILE status a:Running on 192.0.2.1 containerd://1"
		h.expect(t, "RECONCILE mirror-of-a:Pending", own,
			"RECONCILE mirror-of-a:Failed on 198.51.100.1 containerd://1", kubelet,
			"RECONCILE mirror-of-a:Failed on 198.51.100.1 containerd://1", own,
			"RECONCILE mirror-of-a:Failed on 198.51.100.1 containerd://1", kubelet,
			"RECONCILE mirror-of-a:Failed on 198.51.100.1 containerd://1", own,
			"RECONCILE mirror-of-a:Failed on 198.51.100.1 containerd://1", kubelet,
			"REMOVE mirror-of-a:Failed on 198.51.100.1 containerd://1", own)
		// The mirror pod may be known first.
		h.add("api", podtest.Mirror(static("b"), podtest.Status(v1.PodStatus{Phase: v1.PodSucceeded, StartTime: &now})))
		h.add("file", static("b"))
		h.expect(t, "ADD mirror-of-b:Succeeded", "ADD b:Succeeded")
		h.stop(t)
	})
}

// runningMirror returns a mirror pod with a status that a kubelet wrote while the container 1 ran.
func runningMirror(static *v1.Pod, phase v1.PodPhase) *v1.Pod {
	now := metav1.Now()
	return podtest.Mirror(static, podtest.Status(v1.PodStatus{
		Phase: phase, HostIP: "198.51.100.1", StartTime: &now, ContainerStatuses: runs("1"),
	}))
}

// The status in a mirror pod counts no longer when the runtime runs other containers: the kubelet writes it later, or the
// apiserver refuses it.
func TestStatusOfAnOldMirrorPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		a := static("a")
		h.add("file", a)
		mirror := runningMirror(a, v1.PodRunning)
		h.add("api", mirror)
		h.running("a", "1")
		h.running("a", "2")
		written := mirror.DeepCopy()
		written.Status.ContainerStatuses = runs("2")
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{written}})
		h.expect(t, "ADD a:Pending", "ADD mirror-of-a:Running on 198.51.100.1 containerd://1",
			"RECONCILE status a:Running on 198.51.100.1 containerd://1",
			"RECONCILE status a:Running on 192.0.2.1 containerd://2",
			"RECONCILE mirror-of-a:Running on 198.51.100.1 containerd://2", "RECONCILE status a:Running on 198.51.100.1 containerd://2")
		h.stop(t)
	})
}

// The kubelet can write the status in a mirror pod before podconfigd has listed the runtime again: then it counts too.
func TestStatusOfAMirrorPodBeforeTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		a, now := static("a"), metav1.Now()
		h.add("file", a)
		mirror := runningMirror(a, v1.PodRunning)
		h.add("api", mirror)
		h.running("a", "1")
		h.calls = nil
		restarted := mirror.DeepCopy()
		restarted.Status.ContainerStatuses = runs("2")
		restarted.Status.ContainerStatuses[0].RestartCount = 1
		restarted.Status.ContainerStatuses[0].State.Running.StartedAt = now
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{restarted}})
		h.expect(t, "RECONCILE mirror-of-a:Running on 198.51.100.1 containerd://2", "RECONCILE status a:Running on 198.51.100.1 containerd://2")
		if by := h.by(t, "file"); by != ByMirrorPod {
			t.Error(by)
		}
		h.running("a", "2")
		h.expect(t)
		h.stop(t)
	})
}

// Without a runtime and the Pods API of a kubelet, the status in the mirror pod is the only one. It counts as soon as somebody
// wrote it. Nobody says that the runtime made a status.
func TestStatusOfAMirrorPodWithoutARuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Records = nil })
		expectBy := func(want StatusBy) {
			t.Helper()
			if by := h.by(t, "file"); by != want {
				t.Errorf("the status is by %q, want %q", by, want)
			}
		}
		a := static("a")
		h.add("file", a)
		h.expect(t, "ADD a:Pending")
		expectBy(BySource)
		mirror := podtest.Mirror(a, podtest.Phase(v1.PodPending))
		h.add("api", mirror) // the apiserver made it
		h.expect(t, "ADD mirror-of-a:Pending")
		expectBy(BySource)
		started := runningMirror(a, v1.PodRunning)
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{started}})
		h.expect(t, "RECONCILE mirror-of-a:Running on 198.51.100.1 containerd://1", "RECONCILE status a:Running on 198.51.100.1 containerd://1")
		expectBy(ByMirrorPod)
		unstarted := started.DeepCopy() // not every program that runs pods sets the time
		unstarted.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.9"}
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{unstarted}})
		h.expect(t, "RECONCILE mirror-of-a:Running", "RECONCILE status a:Running")
		expectBy(ByMirrorPod)
		own := unstarted.DeepCopy()
		own.Annotations[config.OwnMirrorAnnotationKey] = "node1"
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{own}})
		h.expect(t, "RECONCILE mirror-of-a:Running", "RECONCILE status a:Pending")
		expectBy(BySource)
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{unstarted}})
		h.update(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: []*v1.Pod{unstarted}})
		h.expect(t, "RECONCILE mirror-of-a:Running", "RECONCILE status a:Running", "REMOVE mirror-of-a:Running", "RECONCILE status a:Pending")
		expectBy(BySource)
		h.stop(t)
	})
}
