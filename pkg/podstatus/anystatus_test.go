package podstatus

import (
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// status returns a status that has nothing to do with the pod, except for the names of containers.
func (l lives) status() *v1.PodStatus {
	status := &v1.PodStatus{Phase: []v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, "Other"}[l.IntN(6)]}
	for _, kind := range []v1.PodConditionType{v1.PodInitialized, v1.DisruptionTarget, v1.AllContainersRestarting, "Other", ""} {
		if l.IntN(3) == 0 {
			status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, ""}[l.IntN(3)]})
		}
	}
	for _, statuses := range []*[]v1.ContainerStatus{&status.InitContainerStatuses, &status.ContainerStatuses, &status.EphemeralContainerStatuses} {
		for range l.IntN(4) {
			*statuses = append(*statuses, v1.ContainerStatus{
				Name: []string{"init0", "init1", "c0", "c1", "other", ""}[l.IntN(6)], State: l.state(), LastTerminationState: l.state(),
				Started: []*bool{nil, new(true), new(false)}[l.IntN(3)], Ready: l.IntN(2) == 0,
			})
		}
	}
	return status
}

func (l lives) state() (state v1.ContainerState) {
	if l.IntN(3) == 0 {
		state.Waiting = new(v1.ContainerStateWaiting)
	}
	if l.IntN(3) == 0 {
		state.Running = new(v1.ContainerStateRunning)
	}
	if l.IntN(3) == 0 {
		state.Terminated = &v1.ContainerStateTerminated{ExitCode: int32(l.IntN(2))}
	}
	return state
}

// A pod can come with any status: with containers that it does not have, and without some that it has.
func TestAnyStatus(t *testing.T) {
	for seed := range uint64(2000) {
		l := lives{rand.New(rand.NewPCG(seed, 1))}
		in := Input{Pod: l.pod(), Node: Node{Runtime: "containerd", IPs: []string{"192.0.2.1"}}, Now: time.Unix(1e9, 0)}
		in.Pod.Status = *l.status()
		if l.IntN(2) == 0 {
			in.Pod.DeletionTimestamp = &metav1.Time{Time: in.Now}
		}
		if l.IntN(2) == 0 {
			in.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
			in.Pod.UID = types.UID("api")
		}
		if l.IntN(4) > 0 {
			in.Record = new(Record)
		}
		if l.IntN(2) == 0 && in.Record != nil {
			in.Record = l.record(in.Pod, 0)
		}
		if l.IntN(3) == 0 {
			in.Previous = l.status()
		}
		func() {
			defer func() {
				if why := recover(); why != nil {
					t.Fatalf("seed %d: %v", seed, why)
				}
			}()
			Generate(in)
		}()
	}
}
