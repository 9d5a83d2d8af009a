package http

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// podKey is what a manifest says that its pod is called, or its place in the list
// where it says nothing.
type podKey struct {
	namespace, name string
	index           int
}

// podState is what is known of one pod of the URL.
type podState struct {
	// pod is the last good version; it is in the set unless shadowed.
	pod *v1.Pod
	// fault is what is wrong with the present version; shadowed by whom it is.
	fault    *manifest.Error
	shadowed string
	present  bool
}

// podSet is the pods of the URL.
type podSet map[podKey]*podState

// apply takes the items of an answer over. It tells whether the pods that count are
// other ones.
func (s podSet) apply(items []manifest.Item) (changed bool) {
	before := s.serving()
	for _, state := range s {
		state.present = false
	}
	nameless := false
	uids := make(map[types.UID]podKey)
	for i, item := range items {
		key := podKey{namespace: item.Namespace, name: item.Name}
		if item.Name == "" {
			nameless = true
			key.index = i + 1
		}
		if was := s[key]; was != nil && was.present {
			key.index = i + 1
			s[key] = &podState{present: true, shadowed: "the name of an earlier one in the list"}
			continue
		}
		s.take(key, item, uids)
	}
	for key, state := range s {
		// A pod that is missing may be the one whose name can't be read.
		if !state.present && (!nameless || state.pod == nil) {
			delete(s, key)
		}
	}
	return !slices.Equal(before, s.serving())
}

// take takes over the item that is the first of its name.
func (s podSet) take(key podKey, item manifest.Item, uids map[types.UID]podKey) {
	state := s[key]
	if state == nil {
		state = &podState{}
		s[key] = state
	}
	state.present, state.fault, state.shadowed = true, nil, ""
	if item.Err != nil {
		state.fault, _ = item.Err.(*manifest.Error) //nolint:errorlint // items have no other errors
		return
	}
	if other, taken := uids[item.Pod.UID]; taken {
		state.pod, state.shadowed = nil, fmt.Sprintf("the UID of %s/%s, which is earlier in the list", other.namespace, other.name)
		return
	}
	uids[item.Pod.UID] = key
	// What did not change keeps its pointer, so that nobody compares it.
	if state.pod == nil || !reflect.DeepEqual(state.pod, item.Pod) {
		state.pod = item.Pod
	}
}

// keys returns the keys by namespace, name and place.
func (s podSet) keys() []podKey {
	keys := make([]podKey, 0, len(s))
	for key := range s {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b podKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.index, b.index))
	})
	return keys
}

// serving returns the pods that count. Of two of one UID, of which one is held, the
// one that is present counts.
func (s podSet) serving() []*v1.Pod {
	pods := []*v1.Pod{}
	seen := make(map[types.UID]int)
	for _, key := range s.keys() {
		state := s[key]
		if state.pod == nil {
			continue
		}
		if at, twice := seen[state.pod.UID]; twice {
			if state.fault == nil {
				pods[at] = state.pod
			}
			continue
		}
		seen[state.pod.UID] = len(pods)
		pods = append(pods, state.pod)
	}
	return pods
}

// verdicts returns what there is to say of each pod.
func (s podSet) verdicts() []v1alpha1.Manifest {
	verdicts := make([]v1alpha1.Manifest, 0, len(s))
	for _, key := range s.keys() {
		state := s[key]
		v := v1alpha1.Manifest{State: v1alpha1.ManifestAccepted, Namespace: key.namespace, Name: key.name}
		if key.index > 0 {
			v.Path = fmt.Sprintf("items[%d]", key.index-1)
		}
		if state.pod != nil {
			v.Name, v.UID = state.pod.Name, string(state.pod.UID)
		}
		switch {
		case state.shadowed != "":
			v.State, v.Reason, v.Message = v1alpha1.ManifestShadowed, sources.ReasonDuplicate, "it has "+state.shadowed
		case state.fault != nil && state.pod != nil:
			v.State, v.Reason, v.Message = v1alpha1.ManifestHeld, string(state.fault.Reason), state.fault.Error()+"; the pod that it gave before is kept"
		case state.fault != nil:
			v.State, v.Reason, v.Message = v1alpha1.ManifestRejected, string(state.fault.Reason), state.fault.Error()
		case !state.present:
			v.State, v.Reason = v1alpha1.ManifestHeld, "Missing"
			v.Message = "it is not in the list, but something is whose name can't be read"
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}
