package apiserver

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// store is an UndeltaStore that keeps the objects it has when a list brings them
// again: a pod that did not change stays the same pointer, and costs no comparison.
type store struct {
	*cache.UndeltaStore
}

func newStore(keepManagedFields bool, push func([]any)) store {
	var opts []cache.StoreOption
	if !keepManagedFields {
		opts = append(opts, cache.WithTransformer(dropManagedFields))
	}
	return store{&cache.UndeltaStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc, opts...), PushFunc: push}}
}

func (s store) Replace(list []any, resourceVersion string) error {
	for i := range list {
		pod, ok := list[i].(*v1.Pod)
		if !ok {
			continue
		}
		object, _, _ := s.Get(pod) // a pod has a key
		if old, ok := object.(*v1.Pod); ok && old.UID == pod.UID && old.ResourceVersion == pod.ResourceVersion && pod.ResourceVersion != "" {
			list[i] = old
		}
	}
	return s.UndeltaStore.Replace(list, resourceVersion)
}

// dropManagedFields takes off what no node agent reads and is the larger part of
// many pods. An object that has any is not in the store yet.
func dropManagedFields(object any) (any, error) {
	if pod, ok := object.(*v1.Pod); ok && len(pod.ManagedFields) > 0 {
		pod.ManagedFields = nil
	}
	return object, nil
}
