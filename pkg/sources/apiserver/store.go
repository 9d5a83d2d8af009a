package apiserver

import (
	"hash/maphash"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// store is an UndeltaStore that keeps the objects that it has when a list brings them
// again: a pod that did not change stays the same pointer, and costs no comparison. It
// is the Reflector's, and called by one goroutine at a time.
type store struct {
	*cache.UndeltaStore
	keepManagedFields bool
	// prints are of the metadata of the pods, managedFields among them, by key.
	prints map[cache.ObjectName]metaPrint
}

func newStore(keepManagedFields bool, push func([]any)) *store {
	return &store{
		UndeltaStore:      cache.NewUndeltaStore(push, cache.MetaNamespaceKeyFunc),
		keepManagedFields: keepManagedFields, prints: make(map[cache.ObjectName]metaPrint),
	}
}

func (s *store) Add(object any) error {
	s.take(object)
	return s.UndeltaStore.Add(object)
}

func (s *store) Update(object any) error {
	s.take(object)
	return s.UndeltaStore.Update(object)
}

func (s *store) Delete(object any) error {
	if pod, ok := object.(*v1.Pod); ok {
		delete(s.prints, cache.MetaObjectToName(pod))
	}
	return s.UndeltaStore.Delete(object)
}

// Replace compares the pods as wholes. UID and resourceVersion do not tell pods apart
// if the apiserver went back in time and on from there.
func (s *store) Replace(list []any, resourceVersion string) error {
	clear(s.prints)
	for i := range list {
		s.take(list[i])
		old, exists, _ := s.Get(list[i]) // a pod has a key
		if exists && apiequality.Semantic.DeepEqual(old, list[i]) {
			list[i] = old
		}
	}
	return s.UndeltaStore.Replace(list, resourceVersion)
}

// take remembers a pod's metadata, and takes off managedFields: no node agent reads
// them, and they are the larger part of many pods.
func (s *store) take(object any) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	s.prints[cache.MetaObjectToName(pod)] = printOf(&pod.ObjectMeta)
	if !s.keepManagedFields {
		pod.ManagedFields = nil
	}
}

// resume compares the store, as of the resourceVersion at, with a list that the apiserver
// has of a version. It returns the resourceVersion from which a watch makes the store equal
// to what the apiserver has; none if no watch does and everything has to be listed.
//
// The answer holds whether or not the apiserver has the history that the store comes
// from. Pods that are equal are equal, wherever from; a pod of the list that is newer
// than the store comes with a watch from the store's resourceVersion. Everything else
// would not: a pod that differs and is not newer, and a pod that is not in the list,
// which may have been deleted after the store's resourceVersion or have never existed.
func (s *store) resume(pods []*metav1.ObjectMeta, version, at string) (from string, ok bool) {
	from = version
	known := 0
	for _, pod := range pods {
		held, exists := s.prints[cache.MetaObjectToName(pod)]
		if exists {
			known++
		}
		if exists && held == printOf(pod) {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, at); err != nil || order <= 0 {
			return "", false
		}
		from = at
	}
	return from, known == len(s.prints)
}

// metaPrint tells one metadata of a pod from another.
type metaPrint uint64

var printSeed = maphash.MakeSeed()

// printOf returns the fingerprint of a pod's metadata. Every write to a pod, of its status
// too, leaves its time in managedFields.
func printOf(meta *metav1.ObjectMeta) metaPrint {
	data, err := meta.Marshal()
	if err != nil {
		return 0 // it is of no message that can fail
	}
	return metaPrint(maphash.Bytes(printSeed, data))
}
