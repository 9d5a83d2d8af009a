package apiserver

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// metadataEvents is the Accept header of a watch of metadata.
const metadataEvents = runtime.ContentTypeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	runtime.ContentTypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// follower follows objects beside the pods, with a Reflector. A failure is logged once. It
// does not make the source degraded, because the pods do not depend on these objects.
type follower struct {
	*Source
	resource, selector string
	metadata           bool
	object             any
	// push is called with all objects, after lists and changes. So an object that an earlier Source
	// passed on, and that is gone now, is forgotten.
	push func([]any)

	// listed is called after the first list, or the first failure.
	listed func()
	// logged has the failures that were logged since the last watch that succeeded.
	mu     sync.Mutex
	logged map[string]bool
}

// passPause is the pause after a call of push, as a multiple of the time that the call took.
const passPause = 20

// followNode follows the node, and followNamespaces the metadata of all namespaces.
func (s *Source) followNode() *follower {
	return &follower{
		Source: s, resource: "nodes", object: &v1.Node{}, logged: make(map[string]bool), listed: func() {},
		selector: fields.OneTermEqualSelector(metav1.ObjectNameField, string(s.node)).String(),
		push: func(objects []any) {
			var node *v1.Node
			for _, object := range objects {
				node, _ = object.(*v1.Node) // the apiserver sends no others
			}
			s.putNode(node)
		},
	}
}

func (s *Source) followNamespaces(listed func()) *follower {
	return &follower{
		Source: s, resource: "namespaces", metadata: true, object: &metav1.PartialObjectMetadata{},
		logged: make(map[string]bool), listed: sync.OnceFunc(listed),
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
	logger := klog.FromContext(ctx)
	changed := make(chan struct{}, 1)
	store := cache.NewUndeltaStore(func([]any) {
		await.Signal(changed) // pass will look at the store anyway
	}, cache.MetaNamespaceKeyFunc)
	var passing sync.WaitGroup
	defer passing.Wait()
	passing.Go(func() { f.pass(ctx, store, changed) })
	reflector := cache.NewReflectorWithOptions(f.requests(logger, f.list, f.watch), f.object, store,
		cache.ReflectorOptions{Name: f.resource, Logger: &logger})
	reflector.RunWithContext(quiet(ctx))
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

func (f *follower) request(client *client, opts *metav1.ListOptions, accept string) *rest.Request {
	opts.FieldSelector = f.selector
	request := client.rest.Get().Resource(f.resource).VersionedParams(opts, metav1.ParameterCodec).MaxRetries(0)
	if f.metadata {
		request.SetHeader("Accept", accept)
	}
	return request
}

func (f *follower) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	client, err := f.turn(ctx)
	if err != nil {
		return nil, f.failed(ctx, client, err)
	}
	request, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list, err := f.request(client, &opts, metadataOnly).Do(request).Get()
	if err != nil {
		return nil, f.failed(ctx, client, err)
	}
	return list, nil
}

func (f *follower) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	client, err := f.turn(ctx)
	if err != nil {
		return nil, f.failed(ctx, client, err)
	}
	opts.Watch = true
	w, cancel, err := startWatch(ctx, f.request(client, &opts, metadataEvents))
	if err != nil {
		return nil, f.failed(ctx, client, err)
	}
	f.succeeded(ctx)
	return &endingWatch{w, cancel}, nil
}

// endingWatch cancels the context of a watch when the watch ends.
type endingWatch struct {
	watch.Interface
	cancel context.CancelCauseFunc
}

func (w *endingWatch) Stop() {
	w.Interface.Stop()
	w.cancel(nil)
}

// failed logs a failure once until a watch succeeds: lists and watches may fail in turn. It
// returns the error.
func (f *follower) failed(ctx context.Context, client *client, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || remedied(err) {
		return err
	}
	if apierrors.IsUnauthorized(err) {
		f.connector.distrust(client)
	}
	if text := stable(err).Error(); !f.logged[text] && len(f.logged) < loggedErrors {
		f.logged[text] = true
		klog.FromContext(ctx).Error(err, "A request to the apiserver failed, keeping the last objects", "resource", f.resource)
	}
	f.listed()
	return err
}

// succeeded logs the first watch after a failure. A list is not enough: the watch after it may
// fail again.
func (f *follower) succeeded(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.logged) > 0 {
		clear(f.logged)
		klog.FromContext(ctx).Info("Requests to the apiserver succeed again", "resource", f.resource)
	}
}
