package journal

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Pod is one version of a pod in the journal. It does not change, and all readers
// share it.
type Pod struct {
	// Object is the pod. It must not be written to.
	Object *v1.Pod
	// Source is the name of the source that has it.
	Source string
	// Revision is that of the update that brought this version.
	Revision int64

	// size is that of the pod as protobuf, in bytes.
	size     int
	json     func() (jsonForm, error)
	protobuf func() (protobufForm, error)
}

// memoryFactor is how many bytes of memory a pod takes for each of its bytes as
// protobuf: about 6 for the object, 2 for its JSON and 1 for the protobuf itself,
// measured for pods of one container (330 bytes) and of three with ten variables
// each (1347 bytes).
const memoryFactor = 9

// podKey is what makes two versions the same pod.
type podKey struct {
	source string
	uid    types.UID
}

func (p *Pod) key() podKey { return podKey{p.Source, p.Object.UID} }

func (p *Pod) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
}

func newPod(source string, object *v1.Pod, revision int64, m *metrics) *Pod {
	return &Pod{
		Object: object, Source: source, Revision: revision, size: object.Size(),
		json: sync.OnceValues(func() (jsonForm, error) {
			m.encodes.WithLabelValues("json").Inc()
			return encodeJSON(object)
		}),
		protobuf: sync.OnceValues(func() (protobufForm, error) {
			m.encodes.WithLabelValues("protobuf").Inc()
			return encodeProtobuf(object)
		}),
	}
}

// Created returns the creationTimestamp that the Kubernetes API shows: the pod's own,
// or for a static pod, which has none, the time at which it was first seen. It is zero
// where neither is known.
func (p *Pod) Created() metav1.Time {
	if !p.Object.CreationTimestamp.IsZero() {
		return p.Object.CreationTimestamp
	}
	return firstSeen(p.Object)
}

// firstSeen returns the time at which a pod without a creationTimestamp was first seen,
// in whole seconds. It stays the same for as long as its source has the UID.
func firstSeen(pod *v1.Pod) metav1.Time {
	if !pod.CreationTimestamp.IsZero() {
		return metav1.Time{}
	}
	seen, err := time.Parse(time.RFC3339, pod.Annotations[config.ConfigFirstSeenAnnotationKey])
	if err != nil { // not one of the merge's pods
		return metav1.Time{}
	}
	return metav1.Unix(seen.Unix(), 0)
}

// state is the pods at one revision.
type state map[podKey]*Pod

// sorted returns the pods by source, namespace, name and UID.
func (s state) sorted() []*Pod {
	pods := make([]*Pod, 0, len(s))
	for _, p := range s {
		pods = append(pods, p)
	}
	sortPods(pods)
	return pods
}

func sortPods(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), config.ComparePods(a.Object, b.Object))
	})
}
