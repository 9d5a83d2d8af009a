package podstatus

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lives makes random pods and records.
type lives struct{ *rand.Rand }

func (l lives) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: types.UID("a"), Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}}
	pod.Status.Phase = v1.PodPending
	pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[l.IntN(3)]
	pod.Spec.HostNetwork = l.IntN(2) == 0
	for i := range l.IntN(3) {
		container := v1.Container{Name: fmt.Sprint("init", i)}
		if l.IntN(2) == 0 {
			container.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	for i := range 1 + l.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i)})
	}
	return pod
}

func (l lives) record(pod *v1.Pod, id int) *Record {
	record := new(Record)
	for i := range l.IntN(3) {
		record.Sandboxes = append(record.Sandboxes, &runtimeapi.PodSandboxStatus{
			Id: fmt.Sprint("s", id, i), State: runtimeapi.PodSandboxState(l.IntN(2)), CreatedAt: int64(id*100 + i),
			Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1"},
		})
	}
	for container := range initAndRegular(&pod.Spec) {
		for i := range l.IntN(3) {
			record.Containers = append(record.Containers, &runtimeapi.ContainerStatus{
				Id: fmt.Sprint(container.Name, id, i), Metadata: &runtimeapi.ContainerMetadata{Name: container.Name, Attempt: uint32(i)},
				State: runtimeapi.ContainerState(l.IntN(3)), CreatedAt: int64(id*100 + i), ExitCode: int32(l.IntN(2)),
			})
		}
	}
	return record
}

// If nothing changed, the status is the same: it makes no RECONCILE.
//
// A container in an unknown state is left out: as in the kubelet, it ends, and then waits.
func TestTheSameRecordGivesTheSameStatus(t *testing.T) {
	for seed := range uint64(150) {
		l := lives{rand.New(rand.NewPCG(seed, 0))}
		in := Input{Pod: l.pod(), Node: Node{Runtime: "containerd", IPs: []string{"192.0.2.1"}}, Now: time.Unix(1e9, 0)}
		for n := range 4 {
			in.Record = l.record(in.Pod, n)
			in.Previous = Generate(in)
			in.Now = in.Now.Add(time.Minute)
			again := Generate(in)
			if !equality.Semantic.DeepEqual(again, in.Previous) {
				t.Fatalf("seed %d, record %d %v: (-first +again):\n%s", seed, n, in.Record, cmp.Diff(in.Previous, again))
			}
		}
	}
}
