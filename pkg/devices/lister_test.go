package devices

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// A device is assigned, freed, and assigned to another pod.
func TestAssignedFreedReassigned(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "api", newPod("a", "1"))
		w.kubelet("a c gpu-0 gpu-1")
		w.pass(time.Second)
		w.expect("") // it may be that of another pod with the name
		w.runs("a", "1")
		w.pass(2 * time.Second)
		w.expect("1 c gpu-0 gpu-1")

		w.kubelet()
		w.append(config.REMOVE, "api", newPod("a", "1"))
		w.do(func() { w.runtime = nil })
		w.pass(2 * time.Second)
		w.expect("")
		w.append(config.ADD, "api", newPod("b", "2"))
		w.kubelet("b c gpu-0")
		w.runs("b", "2")
		w.pass(2 * time.Second)
		w.expect("2 c gpu-0")
	})
}

// Before the first list of the runtime, it is not known whose devices they are: that is no table without devices.
func TestBeforeTheRuntimeIsKnown(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "api", newPod("a", "1"))
		w.kubelet("a c gpu-0")
		w.pass(time.Minute)
		if w.lister.Table().Known() {
			t.Error("known")
		}
		w.do(func() { w.unlisted = false })
		w.runs("a", "1")
		w.pass(2 * time.Second)
		w.expect("1 c gpu-0")
	}, func(w *world) { w.unlisted = true })
}

// The kubelet is asked when a pod starts or ends, at most once a second; otherwise each 30 seconds, more often after it has started.
func TestWhenTheKubeletIsAsked(t *testing.T) {
	inWorld(t, true, func(w *world) {
		if n := w.pass(29 * time.Second); n != 6 {
			t.Errorf("%d times after a start, want 6", n)
		}
		w.pass(time.Minute)
		if n := w.pass(time.Hour); n != 120 {
			t.Errorf("%d times in an hour, want 120", n)
		}
		w.pass(time.Second)
		for i := range 100 {
			name := string(rune('a'+i/26)) + string(rune('a'+i%26))
			w.append(config.ADD, "api", newPod(name, types.UID(name)))
			w.runs(name, types.UID(name))
			<-time.After(20 * time.Millisecond)
		}
		if n := w.pass(2 * time.Second); n < 2 || n > 4 {
			t.Errorf("%d times for 100 pods in 2 seconds, want 2 to 4", n)
		}
		w.append(config.UPDATE, "api", newPod("aa", "aa"))
		w.lister.Notice() // of a container that was restarted
		if n := w.pass(3 * time.Second); n != 0 {
			t.Errorf("%d times for nothing that concerns devices", n)
		}
	})
}

// A pod does not get the devices of an earlier pod with its name.
func TestNameOfAnEarlierPod(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "file", newPod("a", "old"))
		w.kubelet("a c gpu-0")
		w.runs("a", "old")
		w.pass(2 * time.Second)
		w.expect("old c gpu-0")
		w.append(config.REMOVE, "file", newPod("a", "old"))
		w.append(config.ADD, "file", newPod("a", "new"))
		w.pass(time.Minute) // the kubelet still runs the old one
		w.expect("")
		w.do(func() { w.runtime = nil })
		w.kubelet("a c gpu-3")
		w.runs("a", "new")
		w.pass(2 * time.Second)
		w.expect("new c gpu-3")

		// The pod changes while the kubelet answers.
		w.do(func() {
			w.change = func() {
				w.append(config.REMOVE, "file", newPod("a", "new"))
				w.append(config.ADD, "file", newPod("a", "newest"))
				w.do(func() { w.runtime = nil })
				w.runs("a", "newest")
			}
		})
		w.append(config.ADD, "file", newPod("b", "b"))
		w.runs("b", "b")
		w.pass(500 * time.Millisecond)
		w.expect("")
		w.kubelet("a c gpu-1")
		w.pass(2 * time.Second)
		w.expect("newest c gpu-1")
	})
}

// Without a runtime, the status says which pods the kubelet runs. A completed pod has no devices.
func TestWithoutARuntime(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.kubelet("a c gpu-0", "b c gpu-1")
		mirror := taken(newPod("a", "mirror"))
		mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "static"}
		w.append(config.ADD, "file", newPod("a", "static"))
		w.append(config.ADD, "api", newPod("b", "b"))
		w.pass(2 * time.Second)
		w.expect("")
		w.append(config.ADD, "api", mirror)
		w.append(config.RECONCILE, "api", taken(newPod("b", "b")))
		w.pass(2 * time.Second)
		w.expect("b c gpu-1, static c gpu-0")
		if PodOf(mirror).UID != "static" || PodOf(newPod("b", "b")).UID != "b" {
			t.Error("another UID than that of the kubelet")
		}
		completed := taken(newPod("b", "b"))
		completed.Status.Phase = v1.PodSucceeded
		w.append(config.RECONCILE, "api", completed)
		w.pass(2 * time.Second)
		w.expect("static c gpu-0")
	})
}

// A static pod has completed if its mirror pod says so and the runtime does not run it.
func TestCompletedStaticPod(t *testing.T) {
	inWorld(t, true, func(w *world) {
		mirror := taken(newPod("a", "mirror"))
		mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "static"}
		mirror.Status.Phase = v1.PodFailed // of the run before the node was restarted
		w.append(config.ADD, "file", newPod("a", "static"))
		w.append(config.ADD, "api", mirror)
		w.runs("a", "static")
		w.kubelet("a c gpu-0")
		w.pass(2 * time.Second)
		w.expect("static c gpu-0")
		w.do(func() { w.runtime[0].Containers = []pleg.Container{{Name: "c", State: pleg.StateExited}} })
		w.lister.Notice()
		w.pass(2 * time.Second)
		w.expect("")
	})
}

// Of two pods with one name, it is not known which has the devices. A pod that no source has is known by the runtime.
func TestNamesOfTwoPods(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "file", newPod("a", "1"))
		w.append(config.ADD, "api", newPod("a", "2"))
		w.runs("a", "1")
		w.runs("a", "2")
		w.runs("orphan", "3")
		w.runs("twice", "4")
		w.kubelet("a c gpu-0", "orphan c gpu-1", "twice c gpu-2", "twice c gpu-3", "unknown c gpu-4")
		w.pass(2 * time.Second)
		w.expect("3 c gpu-1")
	})
}

// Two sources can have a UID under two names. Each has what the kubelet says of its name.
func TestUIDOfTwoPods(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "file", newPod("a", "1"))
		w.append(config.ADD, "api", newPod("b", "1"))
		w.runs("a", "1")
		for range 20 {
			w.kubelet("a c gpu-0")
			w.pass(period)
			w.expect("1 c gpu-0")
			w.kubelet("a c gpu-0", "b c gpu-1")
			w.pass(period)
			w.expect("1 c gpu-0, 1 c gpu-1")
		}
	})
}

// A kubelet that starts again does not list all of its pods at first. What it does not list after that is gone.
func TestKubeletRestart(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "api", newPod("a", "a"), newPod("b", "b"))
		w.runs("a", "a")
		w.runs("b", "b")
		w.kubelet("a c gpu-0", "b c gpu-1")
		w.pass(time.Minute)
		w.do(func() { w.err = errors.New("connection refused") })
		w.pass(2 * time.Minute)
		w.expect("a c gpu-0, b c gpu-1")
		if s := w.lister.Status(); s.LastError != "connection refused" || s.Pods != 2 || time.Since(*s.LastList) < time.Minute {
			t.Errorf("status %+v", s)
		}
		w.append(config.REMOVE, "api", newPod("b", "b"))
		w.do(func() { w.runtime = w.runtime[:1] })
		w.pass(time.Minute) // it ended while the kubelet is away
		w.expect("a c gpu-0")
		w.do(func() { w.started = time.Now() })
		w.kubelet()
		w.pass(25 * time.Second)
		w.expect("a c gpu-0")
		if s := w.lister.Status(); s.LastError != "" || time.Since(*s.LastList) > again {
			t.Errorf("status %+v", s)
		}
		w.kubelet("a")
		w.pass(again)
		w.expect("")
		w.kubelet("a c gpu-0")
		w.pass(time.Minute)
		w.expect("a c gpu-0")
		w.kubelet()
		w.pass(time.Minute)
		w.expect("")
		if n := w.lines("Could not list"); n != 1 {
			t.Errorf("%d lines about the error, want 1", n)
		}
		if n := w.lines("lists the devices of its pods again"); n != 1 {
			t.Errorf("%d lines about the recovery, want 1", n)
		}
	})
}

// A kubelet that hangs is asked with growing pauses, and delays no reader.
func TestHangingKubelet(t *testing.T) {
	inWorld(t, true, func(w *world) {
		w.append(config.ADD, "api", newPod("a", "a"))
		w.runs("a", "a")
		w.kubelet("a c gpu-0")
		w.pass(time.Minute)
		w.do(func() { w.hold = true })
		w.pass(5 * time.Minute)
		w.expect("a c gpu-0")
		if n := w.pass(time.Hour); n < 200 || n > 260 {
			t.Errorf("asked %d times in an hour", n)
		}
		if s := w.lister.Status(); s.LastError != "context deadline exceeded" {
			t.Errorf("status %+v", s)
		}
		w.do(func() { w.hold = false })
		w.pass(time.Minute)
		if s := w.lister.Status(); s.LastError != "" {
			t.Errorf("status %+v", s)
		}
	})
}
