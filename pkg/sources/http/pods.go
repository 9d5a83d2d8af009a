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

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// podKey is what a manifest says that its pod is called.
type podKey struct{ namespace, name string }

func (k podKey) String() string { return k.namespace + "/" + k.name }

// podState is what is known of one pod of the URL.
type podState struct {
	// pod is the last good version; it is in the set.
	pod *v1.Pod
	// fault is what is wrong with the present version, and warnings what the kubelet would
	// pass over in silence.
	fault    *manifest.Error
	warnings []manifest.Fault
	// present: it is in the last answer. Otherwise it is held, missing for so many answers.
	present bool
	missing int
}

// podSet is the pods of the URL that ever were good, as long as they are served or held.
type podSet struct {
	pods map[podKey]*podState
	// refused are the verdicts on the items of the last answer that give no pod.
	refused refusals
	// unusable: no item of the last answer can be used.
	unusable bool
}

func newPodSet() *podSet { return &podSet{pods: make(map[podKey]*podState)} }

// answerSoFar is what was seen of an answer's items.
type answerSoFar struct {
	names map[podKey]struct{}
	uids  map[types.UID]podKey
	// nameless and bad count the items whose name can't be read and those that can't be
	// used; first says what is wrong with the first of the latter.
	items, nameless, bad int
	first                error
}

// apply takes the items of an answer over, until the context is done. It tells whether
// the pods that count are other ones. An answer of which no item can be used changes
// nothing and is an error.
func (s *podSet) apply(ctx context.Context, items iter.Seq[manifest.Item]) (changed bool, err error) {
	before := s.serving()
	s.refused = refusals{}
	for _, state := range s.pods {
		state.present, state.fault, state.warnings = false, nil, nil
	}
	seen := answerSoFar{names: make(map[podKey]struct{}), uids: make(map[types.UID]podKey)}
	for item := range items {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		s.take(item, &seen)
		seen.items++
	}
	s.unusable = seen.items > 0 && seen.bad == seen.items
	if s.unusable {
		err = fmt.Errorf("no pod in the answer can be used: %w", seen.first)
		if more := seen.bad - 1; more > 0 {
			err = fmt.Errorf("%w; and %d more", err, more)
		}
		return false, err
	}
	s.drop(seen.nameless)
	return !slices.Equal(before, s.serving()), nil
}

// take takes over one item.
func (s *podSet) take(item manifest.Item, seen *answerSoFar) {
	key := podKey{item.Namespace, item.Name}
	place := fmt.Sprintf("items[%d]", seen.items)
	var fault *manifest.Error
	if errors.As(item.Err, &fault) {
		label := place
		if item.Name != "" {
			label = key.String()
		}
		if seen.bad++; seen.bad == 1 {
			seen.first = fmt.Errorf("%s: %w", label, fault)
		}
	}
	if item.Name == "" {
		seen.nameless++
		s.refused.reject(place, key, fault)
		return
	}
	if _, twice := seen.names[key]; twice {
		s.refused.shadow(place, key, "the name of an earlier one in the list")
		return
	}
	seen.names[key] = struct{}{}
	state := s.pods[key]
	if fault != nil {
		if state == nil {
			s.refused.reject("", key, fault)
			return
		}
		state.present, state.missing, state.fault, state.warnings = true, 0, fault, item.Warnings
		return
	}
	if other, taken := seen.uids[item.Pod.UID]; taken {
		delete(s.pods, key)
		s.refused.shadow("", key, fmt.Sprintf("the UID of %s, which is earlier in the list", other))
		return
	}
	seen.uids[item.Pod.UID] = key
	if state == nil {
		state = &podState{}
		s.pods[key] = state
	}
	state.present, state.missing, state.warnings = true, 0, item.Warnings
	// What did not change keeps its pointer, so that nobody compares it.
	if state.pod == nil || !reflect.DeepEqual(state.pod, item.Pod) {
		state.pod = item.Pod
	}
}

// drop drops the pods that are missing. One that is missing may be one whose name can't
// be read: while there are such items, it is held. Where more are missing than that, those
// that were missing before go when further ones are missing, so that they don't add up.
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
func (s *podSet) keys() []podKey {
	keys := make([]podKey, 0, len(s.pods))
	for key := range s.pods {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b podKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return keys
}

// serving returns the pods that count. Of two of one UID, of which one is held, the
// one that is present counts.
func (s *podSet) serving() []*v1.Pod {
	pods := []*v1.Pod{}
	seen := make(map[types.UID]int)
	for _, key := range s.keys() {
		state := s.pods[key]
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
