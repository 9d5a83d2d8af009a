package mirror

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func TestTheStatusIsWritten(t *testing.T) {
	bubble(t, func(w *world) {
		running := phase(v1.PodRunning)
		running.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(123456))}}
		running.PodIP = "192.0.2.1"
		w.put(config.ADD, "file", staticPod("a", "1", running))
		w.seen("api", "http")
		w.expect(second, "create a", "status a")
		w.expect(time.Hour) // times have no fractions of seconds in the apiserver
		gate := v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue}
		w.change("a", func(pod *v1.Pod) { pod.Status.Conditions = append(pod.Status.Conditions, gate) })
		w.expect(time.Hour) // a condition of another client stays
		// Many changes in one moment are one request.
		for range 10 {
			w.put(config.RECONCILE, "file", staticPod("a", "1", phase(v1.PodPending)))
		}
		w.put(config.RECONCILE, "file", staticPod("a", "1", phase(v1.PodFailed)))
		w.expect(second, "status a")
		status := w.pods["a"].Status
		if status.Phase != v1.PodFailed || status.PodIP != "" || len(status.Conditions) != 1 || status.Conditions[0].Type != gate.Type {
			t.Errorf("the status is %+v", status)
		}
		// Nothing is known of the pod: its status stays.
		w.put(config.RECONCILE, "file", staticPod("a", "1", v1.PodStatus{Phase: v1.PodPending}))
		w.expect(time.Hour)
	})
}

// A status that another client changes is written again, at most every ten seconds.
func TestAnotherClientWritesTheStatus(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.seen("api", "http")
		w.expect(second, "create a", "status a")
		writes := 0
		for range 100 {
			w.change("a", func(pod *v1.Pod) { pod.Status.Phase = v1.PodUnknown })
			writes += len(w.wait(second))
		}
		if writes < 9 || writes > 11 {
			t.Errorf("%d requests in 100 seconds", writes)
		}
		w.wait(20 * second)
		if phase := w.pods["a"].Status.Phase; phase != v1.PodRunning {
			t.Errorf("the phase is %s", phase)
		}
		w.stopped("")
	})
}

func TestAKubeletWritesTheStatus(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.seen("api", "http")
		w.expect(second, "create a", "status a")
		w.change("a", func(pod *v1.Pod) {
			pod.Status.Phase = v1.PodUnknown
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status"}}
		})
		w.put(config.ADD, "file", staticPod("b", "2", phase(v1.PodRunning)))
		w.wait(9 * time.Minute)
		w.stopped("a kubelet writes the status of the mirror pod default/a")
		if phase := w.pods["a"].Status.Phase; phase != v1.PodUnknown {
			t.Errorf("the phase is %s", phase)
		}
		w.expect(9 * time.Minute)
	})
}

// Everybody with the right to change pods can write managedFields, but not a status.
func TestForgedManagedFields(t *testing.T) {
	bubble(t, func(w *world) {
		forge := func(pod *v1.Pod) {
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Subresource: "status"}}
		}
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a")
		w.change("a", forge)
		w.put(config.RECONCILE, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.expect(second, "status a") // before the first status
		w.change("a", forge)
		w.put(config.RECONCILE, "file", staticPod("a", "1", phase(v1.PodFailed)))
		w.expect(time.Minute, "status a") // and after it
		w.stopped("")
	})
}

// A field that the apiserver drops is not written again and again.
func TestTheApiserverDropsAField(t *testing.T) {
	bubble(t, func(w *world) {
		status := phase(v1.PodRunning)
		status.Resize = v1.PodResizeStatusDeferred
		w.put(config.ADD, "file", staticPod("a", "1", status))
		w.seen("api", "http")
		w.quiet = true
		w.wait(second)
		w.pods["a"].Status.Resize = ""
		w.quiet = false
		w.show("a")
		w.wait(time.Minute)
		w.expect(time.Hour)
	})
}
