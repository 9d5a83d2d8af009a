package status

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// TestRandomPods compares the statuses of random pods over random lives. The kubelet's
// first sync after a change can show a phase that its second one corrects. So both sync
// twice.
func TestRandomPods(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		node := drawNode(rt)
		kubelet := newKubelet(t, node)
		pod := drawPod(rt)
		var previous *v1.PodStatus
		var lives []any
		for n := range rapid.IntRange(1, 4).Draw(rt, "states") {
			if oneIn(rt, 8, "deleted") {
				pod = pod.DeepCopy()
				pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)}
			}
			state := drawState(rt, pod)
			var theirs v1.PodStatus
			life := map[string]any{"state": state}
			lives = append(lives, life)
			kubelet.refused, kubelet.late = true, false
			for range 2 {
				theirs = kubelet.sync(t, pod, state)
				previous = podstatus.Generate(podstatus.Input{
					Pod: pod, Record: state.record(), Previous: previous, Node: node, Now: time.Unix(3000, 0),
				})
				if kubelet.ended {
					break
				}
			}
			life["kubelet"], life["ours"] = theirs, previous
			if diff := cmp.Diff(kubelet.compared(&theirs, &theirs), kubelet.compared(previous, &theirs)); diff != "" {
				rt.Fatalf("state %d: the kubelet's status (-) differs from podconfigd's (+):\n%s\npod: %s\nlife: %s", n, diff, asJSON(pod), asJSON(lives))
			}
			if kubelet.ended || kubelet.late {
				break
			}
		}
	})
}

// compared returns the JSON of a status without times of the clock. The kubelet has no
// volume mounts of a container that runs when it first sees its pod.
func (k *theKubelet) compared(status, theirs *v1.PodStatus) any {
	status = status.DeepCopy()
	status.StartTime = nil
	if k.late {
		status.Phase = ""
	}
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	if k.ended {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(condition v1.PodCondition) bool {
			return slices.Contains([]v1.PodConditionType{v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.AllContainersRestarting}, condition.Type)
		})
	}
	for _, lists := range [][2][]v1.ContainerStatus{
		{status.ContainerStatuses, theirs.ContainerStatuses},
		{status.InitContainerStatuses, theirs.InitContainerStatuses},
		{status.EphemeralContainerStatuses, theirs.EphemeralContainerStatuses},
	} {
		for i := range lists[0] {
			if lists[1][i].VolumeMounts == nil {
				lists[0][i].VolumeMounts = nil
			}
		}
	}
	var value any
	if err := json.Unmarshal(asJSON(status), &value); err != nil {
		panic(err)
	}
	return value
}

func asJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}
