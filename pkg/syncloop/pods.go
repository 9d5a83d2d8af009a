package syncloop

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// podManager stores the current pods, from the updates that the loop dispatched. Only the
// goroutine of the loop uses it.
//
// kubelet: pkg/kubelet/pod Manager.
type podManager struct{ byUID map[types.UID][]sourcePod }

// sourcePod is a pod of a source. Several sources may have a pod with the same UID.
type sourcePod struct {
	source string
	pod    *v1.Pod
}

func newPodManager() *podManager { return &podManager{make(map[types.UID][]sourcePod)} }

// take applies an update of the config.
func (m *podManager) take(u config.PodUpdate) {
	for _, pod := range u.Pods {
		pods := m.byUID[pod.UID]
		i, there := slices.BinarySearchFunc(pods, u.Source, func(p sourcePod, source string) int { return cmp.Compare(p.source, source) })
		switch {
		case u.Op == config.REMOVE && there:
			if pods = slices.Delete(pods, i, i+1); len(pods) == 0 {
				delete(m.byUID, pod.UID)
				continue
			}
		case u.Op == config.REMOVE:
			continue
		case there:
			pods[i].pod = pod
		default:
			pods = slices.Insert(pods, i, sourcePod{u.Source, pod})
		}
		m.byUID[pod.UID] = pods
	}
}

// get returns the pod with that UID from the first source that has one.
func (m *podManager) get(uid types.UID) (*v1.Pod, bool) {
	if pods := m.byUID[uid]; len(pods) > 0 {
		return pods[0].pod, true
	}
	return nil, false
}

// named returns the pods with that name, ordered by source. Each source may have one.
func (m *podManager) named(namespace, name string) []*v1.Pod {
	var found []sourcePod
	for _, pods := range m.byUID {
		for _, p := range pods {
			if p.pod.Namespace == namespace && p.pod.Name == name {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b sourcePod) int {
		return cmp.Or(cmp.Compare(a.source, b.source), config.ComparePods(a.pod, b.pod))
	})
	pods := make([]*v1.Pod, len(found))
	for i, p := range found {
		pods[i] = p.pod
	}
	return pods
}
