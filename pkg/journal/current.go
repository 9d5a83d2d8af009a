package journal

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// State is the current state.
type State struct {
	Instance string
	Revision int64
	// Pods are by source, namespace and name.
	Pods     []*Pod
	Bookmark *Bookmark
}

// State returns the current state.
func (j *Journal) State() State {
	j.mu.RLock()
	pods := slices.Collect(maps.Values(j.state))
	state := State{Instance: j.instance, Revision: j.head, Pods: pods, Bookmark: j.bookmark}
	j.mu.RUnlock()
	sortPods(pods)
	return state
}

// ByUID returns the current pod of the UID, or nil.
func (j *Journal) ByUID(uid types.UID) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.uids[uid]
}

// ByName returns the current pod of the name, or nil.
func (j *Journal) ByName(name types.NamespacedName) *Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.names[name]
}

// MirrorPods returns the current mirror pods by name.
func (j *Journal) MirrorPods() map[types.NamespacedName]*v1.Pod {
	j.mu.RLock()
	defer j.mu.RUnlock()
	mirrors := make(map[types.NamespacedName]*v1.Pod)
	for _, pod := range j.state {
		if config.IsMirrorPod(pod.Object) {
			mirrors[pod.name()] = pod.Object
		}
	}
	return mirrors
}

// Shown is the current pod of each name and of each UID, as Set.Names and Set.UIDs change
// them. They have no order.
type Shown struct {
	Instance    string
	Revision    int64
	Names, UIDs []*Pod
}

// Shown returns the current pod of each name and of each UID.
func (j *Journal) Shown() Shown {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return Shown{
		Instance: j.instance, Revision: j.head,
		Names: slices.Collect(maps.Values(j.names)), UIDs: slices.Collect(maps.Values(j.uids)),
	}
}
