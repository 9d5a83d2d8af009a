package apiserver

import (
	"hash/maphash"
	"sync"
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
	// arrivals has the times at which the objects arrived. arrived is when the newest change arrived.
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
// equal to the apiserver. If there is no such watch, ok is false, and all pods must be
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

// arrivals has the times at which answers and events arrived, until the Reflector has put them
// into the store.
type arrivals struct {
	mu sync.Mutex
	// list is the arrival of the newest complete list. waiting are the objects of events, the
	// oldest first. The Reflector takes them in this order, one at a time.
	list    time.Time
	waiting []arrival
	// began is when the newest event arrived.
	began time.Time
}

type arrival struct {
	object any
	at     time.Time
}

// maxArrivals is more than there can be at a time. Each watch that ends may leave one.
const maxArrivals = 16

// received returns the arrival time of the event that is being received. The wait for this event began at idle.
func (a *arrivals) received(idle time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := config.ArrivedAt(idle, a.began)
	a.began = time.Now()
	return at
}

// listed records the arrival of a complete list.
func (a *arrivals) listed(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.waiting = at, nil
}

// event records the arrival of an object.
func (a *arrivals) event(object any, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == maxArrivals {
		a.waiting = a.waiting[1:]
	}
	a.waiting = append(a.waiting, arrival{object, at})
}

// ofList returns the arrival of the newest list.
func (a *arrivals) ofList() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list
}

// of returns when an object arrived; zero if that is unknown. It forgets the object, and the objects before it.
func (a *arrivals) of(object any) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, w := range a.waiting {
		if w.object == object {
			a.waiting = append(a.waiting[:0], a.waiting[i+1:]...)
			return w.at
		}
	}
	return time.Time{}
}
