package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

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

	// size is that of the pod as protobuf, in bytes.
	size    int
	encoded func() ([]byte, error)
}

// memoryFactor is how many bytes of memory a pod takes for each of its bytes as
// protobuf: about 6 for the object and 2 for its JSON, measured for pods of one
// container (330 bytes) and of three with ten variables each (1347 bytes).
const memoryFactor = 8

// podKey is what makes two versions the same pod.
type podKey struct {
	source string
	uid    types.UID
}

func (p *Pod) key() podKey { return podKey{p.Source, p.Object.UID} }

func newPod(source string, object *v1.Pod, m *metrics) *Pod {
	p := &Pod{Object: object, Source: source, size: object.Size()}
	p.encoded = sync.OnceValues(func() ([]byte, error) {
		m.encodes.WithLabelValues("json").Inc()
		return encodeJSON(object)
	})
	return p
}

// JSON returns the pod's JSON with apiVersion and kind, which is made once. The
// bytes must not be written to.
func (p *Pod) JSON() ([]byte, error) { return p.encoded() }

func encodeJSON(pod *v1.Pod) ([]byte, error) {
	whole := *pod
	whole.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	data, err := json.Marshal(&whole)
	if err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return bytes.Clone(data), nil
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
