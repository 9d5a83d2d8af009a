package conformance

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // for the conversion
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"

	"github.com/podconfigd/podconfigd/internal/podfields"
)

// TestRowsOfTables compares the rows for kubectl with the rows of the apiserver's own printers, for
// random pods.
func TestRowsOfTables(t *testing.T) {
	generator := printers.NewTableGenerator().With(printersinternal.AddHandlers)
	seen := make(map[any]bool)
	for seed := range objects() {
		pod := podInSomeState(rand.New(rand.NewPCG(uint64(seed), 0)))
		var internal api.Pod
		if err := legacyscheme.Scheme.Convert(pod, &internal, nil); err != nil {
			t.Fatal(err)
		}
		table, err := generator.GenerateTable(&internal, printers.GenerateOptions{Wide: true})
		if err != nil {
			t.Fatal(err)
		}
		got := podfields.Cells(pod, time.Now())
		if diff := cmp.Diff(table.Rows[0].Cells, got); diff != "" {
			t.Fatalf("seed %d: the apiserver (-) and podconfigd (+) differ: %s\n%+v", seed, diff, pod)
		}
		seen[got[2]] = true
	}
	// Fewer would mean that the pods are not diverse enough.
	if len(seen) < 30 {
		t.Errorf("only %d different states: %v", len(seen), seen)
	}
}

// objects is the number of random objects of each kind that are compared.
func objects() int {
	if testing.Short() {
		return 2_000
	}
	return 20_000
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// podInSomeState returns a pod in any state that a row shows.
func podInSomeState(r *rand.Rand) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: someTime(r)},
		Spec:       v1.PodSpec{NodeName: pick(r, "", "node1")},
		Status: v1.PodStatus{
			Phase:             pick(r, v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown, ""),
			Reason:            pick(r, "", "", "", "Evicted", "NodeLost"),
			NominatedNodeName: pick(r, "", "node2"),
		},
	}
	if r.IntN(4) == 0 {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	if r.IntN(2) == 0 {
		pod.Status.PodIPs = []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.PodReady, "gate-a"} {
		if r.IntN(2) == 0 {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
				Type: kind, Status: pick(r, v1.ConditionTrue, v1.ConditionFalse), Reason: pick(r, "", "", v1.PodReasonSchedulingGated),
			})
		}
	}
	for _, gate := range []v1.PodConditionType{"gate-a", "gate-b"} {
		if r.IntN(3) == 0 {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: gate})
		}
	}
	for i := range r.IntN(4) {
		name := fmt.Sprint("init", i)
		c := v1.Container{Name: name}
		if r.IntN(2) == 0 {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		if r.IntN(5) > 0 {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, someStatus(r, name))
		}
	}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprint("c", i)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
		if r.IntN(5) > 0 {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, someStatus(r, name))
		}
	}
	return pod
}

// someTime is far enough from the next second: both sides read the clock.
func someTime(r *rand.Rand) metav1.Time {
	return pick(r, metav1.Time{}, metav1.NewTime(time.Now().Add(-90*time.Minute-30*time.Second)), metav1.NewTime(time.Now().Add(-50*time.Hour-30*time.Minute)))
}

func someStatus(r *rand.Rand, name string) v1.ContainerStatus {
	status := v1.ContainerStatus{Name: name, Ready: r.IntN(2) == 0, RestartCount: int32(r.IntN(3))}
	if r.IntN(2) == 0 {
		status.Started = new(r.IntN(2) == 0)
	}
	ended := func() *v1.ContainerStateTerminated {
		return &v1.ContainerStateTerminated{
			ExitCode: pick[int32](r, 0, 0, 1, 137), Signal: pick[int32](r, 0, 9),
			Reason: pick(r, "", "Completed", "Completed", "Error", "OOMKilled"), FinishedAt: someTime(r),
		}
	}
	switch r.IntN(4) {
	case 0:
		status.State.Waiting = &v1.ContainerStateWaiting{Reason: pick(r, "", "PodInitializing", "CrashLoopBackOff", "ImagePullBackOff")}
	case 1, 2:
		status.State.Running = &v1.ContainerStateRunning{}
	default:
		status.State.Terminated = ended()
	}
	if r.IntN(2) == 0 {
		status.LastTerminationState.Terminated = ended()
	}
	return status
}
