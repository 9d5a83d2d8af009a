package apiserver

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// newStore returns the store that the Reflector fills with pods. It calls push with all pods after each change. A pod
// that is equal to the one in the store keeps its pointer, so the merge does not compare it again. A list without
// changes is not pushed, except for the first.
//
// Complete pods are compared: UID and resourceVersion are not enough to identify a version if the apiserver was
// restored from a backup.
func newStore(keepManagedFields bool, push func([]*v1.Pod)) *cache.UndeltaStore {
	changed, pushed := true, 0
	var store cache.Store
	store = cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithTransformer(func(object any) (any, error) {
		pod, ok := object.(*v1.Pod)
		if !ok {
			return nil, fmt.Errorf("expected a Pod, got %T", object)
		}
		prepare(pod, keepManagedFields)
		if old, exists, _ := store.Get(pod); exists && apiequality.Semantic.DeepEqual(old, pod) {
			return old, nil
		}
		changed = true
		return pod, nil
	}))
	return &cache.UndeltaStore{Store: store, PushFunc: func(objects []any) {
		if !changed && len(objects) == pushed {
			return
		}
		changed, pushed = false, len(objects)
		pods := make([]*v1.Pod, 0, len(objects))
		for _, object := range objects {
			pod, _ := object.(*v1.Pod) // the transformer takes no others
			pods = append(pods, pod)
		}
		push(pods)
	}}
}

// prepare removes managedFields: no node agent uses them, and they are the larger part of many pods. In a mirror pod
// that podconfigd made, it notes that a kubelet writes the status.
func prepare(pod *v1.Pod, keepManagedFields bool) {
	if _, own := pod.Annotations[config.OwnMirrorAnnotationKey]; own && config.KubeletWroteStatus(pod) {
		pod.Annotations[config.OwnMirrorAnnotationKey] = config.AdoptedMirror
	}
	if !keepManagedFields {
		pod.ManagedFields = nil
	}
}
