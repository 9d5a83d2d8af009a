package podstatus

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQOS(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	of := func(requests, limits v1.ResourceList) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	guaranteed, burstable := of(list("1", "1Gi"), list("1", "1Gi")), of(list("1", "1Gi"), list("2", "1Gi"))
	for name, c := range map[string]struct {
		pod        *v1.ResourceRequirements
		containers []v1.ResourceRequirements
		want       v1.PodQOSClass
	}{
		"none":                            {nil, []v1.ResourceRequirements{{}, {}}, v1.PodQOSBestEffort},
		"zeros":                           {nil, []v1.ResourceRequirements{of(list("0", "0"), nil)}, v1.PodQOSBestEffort},
		"guaranteed":                      {nil, []v1.ResourceRequirements{guaranteed, guaranteed}, v1.PodQOSGuaranteed},
		"guaranteed and none":             {nil, []v1.ResourceRequirements{guaranteed, {}}, v1.PodQOSBurstable},
		"burstable":                       {nil, []v1.ResourceRequirements{burstable}, v1.PodQOSBurstable},
		"memory only":                     {nil, []v1.ResourceRequirements{of(nil, v1.ResourceList{v1.ResourceMemory: resource.MustParse("1")})}, v1.PodQOSBurstable},
		"equal sums":                      {nil, []v1.ResourceRequirements{of(list("1", "1"), list("2", "1")), of(list("2", "1"), list("1", "1"))}, v1.PodQOSBurstable},
		"of the pod":                      {&guaranteed, []v1.ResourceRequirements{burstable}, v1.PodQOSGuaranteed},
		"of the pod, empty":               {&v1.ResourceRequirements{}, []v1.ResourceRequirements{burstable}, v1.PodQOSBurstable},
		"of the pod, only others":         {new(of(v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1")}, nil)), []v1.ResourceRequirements{guaranteed}, v1.PodQOSGuaranteed},
		"of the pod, without CPU, memory": {new(of(v1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}, nil)), []v1.ResourceRequirements{guaranteed}, v1.PodQOSBestEffort},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
			for _, resources := range c.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: resources})
			}
			if got := podQOS(pod, 0); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The resources of a pod count from 1.34 on, and empty ones until 1.36.
func TestQOSOfMinors(t *testing.T) {
	one := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Gi")}
	guaranteed := v1.ResourceRequirements{Requests: one, Limits: one}
	for minor, want := range map[int][3]v1.PodQOSClass{ // without resources, with empty ones, with some
		33: {v1.PodQOSBestEffort, v1.PodQOSBestEffort, v1.PodQOSBestEffort},
		34: {v1.PodQOSBestEffort, v1.PodQOSBestEffort, v1.PodQOSGuaranteed},
		36: {v1.PodQOSBestEffort, v1.PodQOSBestEffort, v1.PodQOSGuaranteed},
		37: {v1.PodQOSBestEffort, v1.PodQOSBestEffort, v1.PodQOSGuaranteed},
	} {
		for i, name := range []string{"no", "empty", "guaranteed"} {
			t.Run(fmt.Sprintf("%s resources of the pod/1.%d", name, minor), func(t *testing.T) {
				resources := []*v1.ResourceRequirements{nil, {}, &guaranteed}[i]
				pod := &v1.Pod{Spec: v1.PodSpec{Resources: resources, Containers: []v1.Container{{}}}}
				if got := Generate(Input{Pod: pod, Record: new(Record), Node: Node{Minor: minor}}).QOSClass; got != want[i] {
					t.Errorf("got %s, want %s", got, want[i])
				}
			})
		}
	}
	// The containers are guaranteed, and the pod has empty resources.
	pod := &v1.Pod{Spec: v1.PodSpec{Resources: new(v1.ResourceRequirements), Containers: []v1.Container{{Resources: guaranteed}}}}
	for minor, want := range map[int]v1.PodQOSClass{
		0: v1.PodQOSGuaranteed, 33: v1.PodQOSGuaranteed, 34: v1.PodQOSBestEffort, 35: v1.PodQOSBestEffort, 36: v1.PodQOSBestEffort,
		37: v1.PodQOSGuaranteed, 38: v1.PodQOSGuaranteed,
	} {
		t.Run(fmt.Sprintf("guaranteed containers/1.%d", minor), func(t *testing.T) {
			if got := podQOS(pod, minor); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
