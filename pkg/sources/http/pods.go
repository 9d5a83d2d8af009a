package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// manifestName is the name of a pod in a manifest.
type manifestName struct{ namespace, name string }

func (k manifestName) String() string { return k.namespace + "/" + k.name }

// podState is the state of one pod of the URL.
type podState struct {
	// pod is the last good version. It is in the set.
	pod *v1.Pod
	// fault is the fault of the current version, and lines are the lines around it. warnings are faults that the kubelet
	// ignores.
	fault    *manifest.Error
	lines    *v1alpha1.ManifestFault
	warnings []manifest.Fault
	// present means that the pod is in the last answer. Otherwise it is held, and missing
	// is the number of answers without it.
	present bool
	missing int
}

// podSet has the pods of the URL, as long as they are served or held.
type podSet struct {
	pods map[manifestName]*podState
	// refused are the verdicts on the items of the last answer without a pod.
	refused refusals
	// unusable means that the last answer had no valid item.
	unusable bool
}

func newPodSet() *podSet { return &podSet{pods: make(map[manifestName]*podState)} }

// maxFaultLines is the number of faulty items of an answer for which the lines around the fault are kept. To find them,
// the answer is read again from its start.
const maxFaultLines = 20

// answerSoFar is the state of reading an answer.
type answerSoFar struct {
	body  []byte
	names map[manifestName]struct{}
	uids  map[types.UID]manifestName
	// nameless counts the items whose name can't be read, and bad the invalid items. first
	// is the error of the first invalid item.
	items, nameless, bad int
	first                error
}

// errOutdated means that an answer must be decoded again.
var errOutdated = errors.New("the items were decoded by the rules of another kubelet")

// apply applies the items of an answer, whose bytes are body, until the context is done. It reports whether the
// set changed. An answer without a valid item changes nothing and is an error. If outdated is closed, it
// returns errOutdated without decoding the other items.
func (s *podSet) apply(ctx context.Context, body []byte, items iter.Seq[manifest.Item], outdated <-chan struct{}) (changed bool, err error) {
	before := s.serving()
	s.refused = refusals{}
	for _, state := range s.pods {
		state.present, state.fault, state.lines, state.warnings = false, nil, nil, nil
	}
	seen := answerSoFar{body: body, names: make(map[manifestName]struct{}), uids: make(map[types.UID]manifestName)}
	for item := range items {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		s.applyItem(item, &seen)
		seen.items++
		select {
		case <-outdated:
			return !slices.Equal(before, s.serving()), errOutdated
		default:
		}
	}
	s.unusable = seen.items > 0 && seen.bad == seen.items
	if s.unusable {
		err = fmt.Errorf("no valid pod in the answer: %w", seen.first)
		if more := seen.bad - 1; more > 0 {
			err = fmt.Errorf("%w; and %d more", err, more)
		}
		return false, err
	}
	s.drop(seen.nameless)
	return !slices.Equal(before, s.serving()), nil
}

// applyItem applies one item.
func (s *podSet) applyItem(item manifest.Item, seen *answerSoFar) {
	key, pod := manifestName{item.Namespace, item.Name}, manifestName{item.Namespace, item.PodName}
	place := fmt.Sprintf("items[%d]", seen.items)
	fault, invalid := errors.AsType[*manifest.Error](item.Err)
	var lines *v1alpha1.ManifestFault
	if invalid {
		label := place
		if item.Name != "" {
			label = key.String()
		}
		if seen.bad++; seen.bad == 1 {
			seen.first = fmt.Errorf("%s: %w", label, fault)
		}
		if seen.bad <= maxFaultLines {
			lines = sources.FaultLines(seen.body, manifest.FirstLine(fault.Faults))
		}
	}
	if item.Name == "" {
		seen.nameless++
		s.refused.reject(place, pod, fault, lines)
		return
	}
	if _, twice := seen.names[key]; twice {
		s.refused.shadow(place, pod, "the pod's name is taken by an earlier item of the list")
		return
	}
	seen.names[key] = struct{}{}
	state := s.pods[key]
	if fault != nil {
		if state == nil {
			s.refused.reject("", pod, fault, lines)
			return
		}
		state.present, state.missing = true, 0
		state.fault, state.lines, state.warnings = fault, lines, item.Warnings
		return
	}
	if other, taken := seen.uids[item.Pod.UID]; taken {
		delete(s.pods, key)
		s.refused.shadow("", pod, fmt.Sprintf("the pod's UID is taken by %s, which is earlier in the list", other))
		return
	}
	seen.uids[item.Pod.UID] = key
	if state == nil {
		state = &podState{}
		s.pods[key] = state
	}
	state.present, state.missing, state.warnings = true, 0, item.Warnings
	// An unchanged pod keeps its pointer, so that the merge does not compare it.
	if state.pod == nil || !reflect.DeepEqual(state.pod, item.Pod) {
		state.pod = item.Pod
	}
}

// drop removes missing pods. nameless is the number of items whose name can't be read. Each of them may be one of the
// missing pods, so missing pods are held while there are such items. If there are more missing pods than such items,
// each further missing pod causes the removal of the pods that were missing before. So the number of held pods is
// limited.
func (s *podSet) drop(nameless int) {
	missing, further := 0, false
	for _, state := range s.pods {
		if !state.present {
			missing++
			state.missing++
			further = further || state.missing == 1
		}
	}
	for key, state := range s.pods {
		if !state.present && (nameless == 0 || missing > nameless && further && state.missing > 1) {
			delete(s.pods, key)
		}
	}
}

// keys returns the keys by namespace and name.
func (s *podSet) keys() []manifestName {
	keys := make([]manifestName, 0, len(s.pods))
	for key := range s.pods {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b manifestName) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return keys
}

// serving returns the pods that count, by namespace and name.
func (s *podSet) serving() []*v1.Pod {
	counting := s.counting()
	pods := []*v1.Pod{}
	for _, key := range s.keys() {
		if pod := s.pods[key].pod; counting[pod.UID] == key {
			pods = append(pods, pod)
		}
	}
	return pods
}

// counting returns for each UID the name that counts. If several pods have the UID, a pod whose current version is good
// counts, or else a pod that is in the last answer, or else the first.
func (s *podSet) counting() map[types.UID]manifestName {
	rank := func(key manifestName) int {
		switch state := s.pods[key]; {
		case !state.present:
			return 2
		case state.fault != nil:
			return 1
		}
		return 0
	}
	counting := make(map[types.UID]manifestName, len(s.pods))
	for _, key := range s.keys() {
		uid := s.pods[key].pod.UID
		if first, twice := counting[uid]; !twice || rank(key) < rank(first) {
			counting[uid] = key
		}
	}
	return counting
}
