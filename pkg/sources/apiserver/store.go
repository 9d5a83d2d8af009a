package apiserver

import (
	"hash/maphash"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// store is an UndeltaStore that keeps its objects if a list has equal ones. So an
// unchanged pod keeps its pointer and needs no comparison. It belongs to the Reflector,
// which calls it from one goroutine at a time.
type store struct {
	*cache.UndeltaStore
	keepManagedFields bool
	// prints are the fingerprints of the pods' metadata with managedFields, by key.
	prints map[cache.ObjectName]metaPrint
	// arrivals has when the objects arrived, and arrived is that of the newest change.
	arrivals arrivals
	arrived  time.Time
}

func newStore(keepManagedFields bool, push func([]any)) *store {
	return &store{
		UndeltaStore:      cache.NewUndeltaStore(push, cache.MetaNamespaceKeyFunc),
		keepManagedFields: keepManagedFields, prints: make(map[cache.ObjectName]metaPrint),
	}
}

func (s *store) Add(object any) error {
	s.arrived = s.arrivals.of(object)
	s.take(object)
	return s.UndeltaStore.Add(object)
}

func (s *store) Update(object any) error {
	s.arrived = s.arrivals.of(object)
	s.take(object)
	return s.UndeltaStore.Update(object)
}

func (s *store) Delete(object any) error {
	s.arrived = s.arrivals.of(object)
	if pod, ok := object.(*v1.Pod); ok {
		delete(s.prints, cache.MetaObjectToName(pod))
	}
	return s.UndeltaStore.Delete(object)
}

// Replace compares complete pods. UID and resourceVersion are not enough to identify a
// version if the apiserver was restored.
func (s *store) Replace(list []any, resourceVersion string) error {
	s.arrived = s.arrivals.ofList()
	clear(s.prints)
	for i := range list {
		s.take(list[i])
		old, exists, _ := s.Get(list[i]) // every pod has a key
		if exists && apiequality.Semantic.DeepEqual(old, list[i]) {
			list[i] = old
		}
	}
	return s.UndeltaStore.Replace(list, resourceVersion)
}

// take records a pod's fingerprint, and removes managedFields: no node agent uses them,
// and they are the larger part of many pods. In a mirror pod that podconfigd made, it notes that a kubelet writes the
// status.
func (s *store) take(object any) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	s.prints[cache.MetaObjectToName(pod)] = printOf(&pod.ObjectMeta)
	if _, own := pod.Annotations[config.OwnMirrorAnnotationKey]; own && config.KubeletWroteStatus(pod) {
		pod.Annotations[config.OwnMirrorAnnotationKey] = config.AdoptedMirror
	}
	if !s.keepManagedFields {
		pod.ManagedFields = nil
	}
}

// resume compares the store, which is at a resourceVersion, with a list of the apiserver
// that has a version. It returns the resourceVersion from which a watch makes the store
// equal to the apiserver. It returns none if there is no such watch and all pods must be
// listed.
//
// The result is correct even if the apiserver does not have the history of the store.
// Equal pods are equal in any history. A pod of the list that is newer than the store
// comes with a watch from the store's resourceVersion. All other differences would not
// come: a pod that differs and is not newer, and a pod that is not in the list. The
// latter may have been deleted after the store's resourceVersion, or may never have
// existed.
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

// metaPrint is the fingerprint of a pod's metadata.
type metaPrint uint64

var printSeed = maphash.MakeSeed()

// printOf returns the fingerprint of a pod's metadata. Every write to a pod, also to its
// status, leaves its time in managedFields.
func printOf(meta *metav1.ObjectMeta) metaPrint {
	data, err := meta.Marshal()
	if err != nil {
		return 0 // this type of message can't fail
	}
	return metaPrint(maphash.Bytes(printSeed, data))
}
