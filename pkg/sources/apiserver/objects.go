package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Values of the Accept header.
const (
	wholeObjects   = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	metadataObject = runtime.ContentTypeProtobuf + asMetadata + "," + runtime.ContentTypeJSON + asMetadata
	metadataList   = runtime.ContentTypeProtobuf + asMetadataList + "," + runtime.ContentTypeJSON + asMetadataList
)

// follower follows objects beside the pods, with a Reflector. A failure is logged. It does not make the source
// degraded, because the pods do not depend on these objects.
type follower struct {
	*listWatch
	// push is called with all objects, after lists and changes. So an object that an earlier Source
	// passed on, and that is gone now, is forgotten.
	push func([]any)
	// listed is called after each list and change.
	listed func()
}

const (
	// passPause is the pause after a call of push, as a multiple of the time that the call took.
	passPause = 20
	// lastFollowerRetry is the longest wait after a failure of a follower.
	lastFollowerRetry = 30 * time.Second
)

// followNode follows the node, and followNamespaces the metadata of all namespaces.
func (s *Source) followNode() *follower {
	b := newBoard(nil)
	return &follower{
		listWatch: &listWatch{
			Source: s, resource: "nodes", selector: fields.OneTermEqualSelector(metav1.ObjectNameField, string(s.node)).String(),
			object: &v1.Node{}, objects: &v1.NodeList{}, acceptList: wholeObjects, acceptWatch: wholeObjects,
			board: b, attempts: newAttempts(b, lastFollowerRetry), onFailure: func() {},
		},
		push: func(objects []any) {
			var node *v1.Node
			for _, object := range objects {
				node, _ = object.(*v1.Node) // the apiserver sends no others
			}
			s.putNode(node)
		},
		listed: func() {},
	}
}

func (s *Source) followNamespaces(listed func()) *follower {
	b := newBoard(nil)
	listed = sync.OnceFunc(listed)
	return &follower{
		listWatch: &listWatch{
			Source: s, resource: "namespaces",
			object: &metav1.PartialObjectMetadata{}, objects: &metav1.PartialObjectMetadataList{}, acceptList: metadataList, acceptWatch: metadataObject,
			board: b, attempts: newAttempts(b, lastFollowerRetry), onFailure: listed,
		},
		push: func(objects []any) {
			all := make([]*metav1.ObjectMeta, 0, len(objects))
			for _, object := range objects {
				if namespace, ok := object.(*metav1.PartialObjectMetadata); ok {
					s.strip(&namespace.ObjectMeta)
					all = append(all, &namespace.ObjectMeta)
				}
			}
			s.objects.Namespaces(all)
		},
		listed: listed,
	}
}

// putNode passes the node on; nil if there is none.
func (s *Source) putNode(node *v1.Node) {
	if s.objects.Node == nil {
		return
	}
	if node != nil {
		s.strip(&node.ObjectMeta)
	}
	s.objects.Node(node)
}

// strip removes managedFields. An object that was passed on has none left, so it is not written to again.
func (s *Source) strip(meta *metav1.ObjectMeta) {
	if !s.keep && meta.ManagedFields != nil {
		meta.ManagedFields = nil
	}
}

// follow runs the followers until the context is done. It returns when the first list of
// namespaces is complete, or has failed: pods wait for the metadata of their namespaces.
func (s *Source) follow(ctx context.Context) {
	if s.objects.Node != nil {
		node := s.followNode()
		s.calls.running.Go(func() { node.run(ctx) })
	}
	if s.objects.Namespaces == nil {
		return
	}
	listed := make(chan struct{})
	namespaces := s.followNamespaces(func() { close(listed) })
	s.calls.running.Go(func() { namespaces.run(ctx) })
	select {
	case <-listed:
	case <-ctx.Done():
	}
}

func (f *follower) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("resource", f.resource))
	changed := make(chan struct{}, 1)
	store := cache.NewUndeltaStore(func([]any) {
		await.Signal(changed) // pass will look at the store anyway
	}, cache.MetaNamespaceKeyFunc)
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	deliveries.Go(func() { f.pass(ctx, store, changed) })
	f.reflector(ctx, store).RunWithContext(quiet(ctx))
}

// pass passes on all objects after changes. Then it waits passPause times as long as that took, at most a second. Otherwise, a
// burst with a change of each of 10,000 namespaces takes more than ten seconds of a processor.
func (f *follower) pass(ctx context.Context, store cache.Store, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		began := time.Now()
		f.push(store.List())
		f.listed()
		if await.For(ctx, min(passPause*time.Since(began), time.Second)) != nil {
			return
		}
	}
}

// MetadataReader reads the metadata of objects in the apiserver of a kubeconfig. It reads the kubeconfig again when it
// changes. If the apiserver does not accept the credentials, a request is tried once more, as with a PodWriter. Its errors
// are the errors of the apiserver, see k8s.io/apimachinery/pkg/api/errors.
type MetadataReader struct{ connector *connector }

// NewMetadataReader returns a MetadataReader for a kubeconfig, or for the service account of the pod if the path is empty.
// It does nothing before the first request.
func NewMetadataReader(kubeconfig, userAgent string) *MetadataReader {
	return &MetadataReader{newConnector(kubeconfig, userAgent)}
}

// Get returns the metadata of the object at a path.
func (r *MetadataReader) Get(ctx context.Context, path string) (*metav1.PartialObjectMetadata, error) {
	return ask[*metav1.PartialObjectMetadata](ctx, r.connector, "the metadata of an object", func(c rest.Interface) *rest.Request {
		return c.Get().AbsPath(path).SetHeader("Accept", metadataObject)
	})
}

// Resources returns the resources at a path, which is that of a version of a group, such as /apis/apps/v1.
func (r *MetadataReader) Resources(ctx context.Context, path string) (*metav1.APIResourceList, error) {
	return ask[*metav1.APIResourceList](ctx, r.connector, "a list of resources", func(c rest.Interface) *rest.Request {
		return c.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	})
}

// Close closes the connections.
func (r *MetadataReader) Close() { r.connector.close() }

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
func prepare(pod *v1.Pod, keepManagedFields bool) { //nolint:podwrite // it was just decoded, and is not sent yet
	if _, own := pod.Annotations[config.OwnMirrorAnnotationKey]; own && config.KubeletWroteStatus(pod) {
		pod.Annotations[config.OwnMirrorAnnotationKey] = config.AdoptedMirror
	}
	if !keepManagedFields {
		pod.ManagedFields = nil
	}
}
