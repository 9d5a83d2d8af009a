package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Values of the Accept header. A server that does not support metadata may answer with
// pods.
const (
	wholeObjects = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	onlyMetadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
	metadataOnly = runtime.ContentTypeProtobuf + onlyMetadata + runtime.ContentTypeJSON + onlyMetadata + wholeObjects
)

// listWatch makes the requests of the Reflector.
type listWatch struct {
	*Source
	logger   klog.Logger
	store    *store
	selector string
	// listed means that the next watch follows a list.
	listed bool
}

func (s *Source) listWatch(logger klog.Logger, store *store) *cache.ListWatch {
	l := &listWatch{
		Source: s, logger: logger, store: store,
		selector: fields.OneTermEqualSelector("spec.nodeName", string(s.node)).String(),
	}
	return s.requests(logger, l.list, func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		opts.Watch = true
		if opts.SendInitialEvents != nil {
			return l.watchList(ctx, opts)
		}
		return l.watch(ctx, opts)
	})
}

// requests returns the requests of a Reflector. They log with the logger.
func (s *Source) requests(logger klog.Logger, list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			// The Reflector does not wait for a list that it no longer needs, and may
			// even start one then.
			if !s.calls.begin() {
				return nil, context.Cause(ctx)
			}
			defer s.calls.running.Done()
			return list(klog.NewContext(ctx, logger), opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return watches(klog.NewContext(ctx, logger), opts)
		},
	}
}

// list lists complete pods.
func (l *listWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	var list *v1.PodList
	err := l.ask(ctx, remedied, func(ctx context.Context, client *client) error {
		answer, err := l.get(ctx, client, opts, wholeObjects)
		if err != nil {
			return err
		}
		var ok bool
		if list, ok = answer.(*v1.PodList); !ok {
			return fmt.Errorf("listing pods: expected a PodList, got %T", answer)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if list.Continue == "" {
		l.board.listed()
		l.store.arrivals.listed(time.Now())
		l.listed = true
	}
	return list, nil
}

// get makes one request for a list, of objects in the format of accept.
func (l *listWatch) get(ctx context.Context, client *client, opts metav1.ListOptions, accept string) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	opts.FieldSelector = l.selector
	list, err := client.rest.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).
		SetHeader("Accept", accept).MaxRetries(0).Do(ctx).Get()
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	if list, err := meta.ListAccessor(list); err != nil || list.GetResourceVersion() == "" {
		return nil, errors.New("listing pods: expected a list of an apiserver, got one without a resourceVersion")
	}
	return list, nil
}

// watchList starts a watch that lists complete pods first. An apiserver without this feature, as
// before Kubernetes 1.34, refuses the request. Then the Reflector lists.
func (l *listWatch) watchList(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.ResourceVersion = "" // the newest: the apiserver may have been restored
	var w *observedWatch
	var unsupported error
	err := l.ask(ctx, remedied, func(ctx context.Context, client *client) (err error) {
		w, err = l.open(ctx, client, opts)
		if apierrors.IsInvalid(err) {
			unsupported, err = err, nil
		}
		return err
	})
	if err = cmp.Or(err, unsupported); err != nil {
		return nil, fmt.Errorf("watching a list: %v", err) //nolint:errorlint // any error: the Reflector must list
	}
	l.observe(ctx, w, false)
	return w, nil
}

// watch starts a watch from a resourceVersion. If it does not follow a list, it first
// compares the store with the apiserver. While there was no watch, the apiserver may have
// been replaced, or restored from a backup. Errors of connections do not always show
// this.
func (l *listWatch) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	at, followsList := opts.ResourceVersion, l.listed
	l.listed = false
	compare := !followsList
	var w *observedWatch
	err := l.ask(ctx, remedied, func(ctx context.Context, client *client) error {
		w = nil
		if compare {
			from, ok, err := l.compare(ctx, client, at)
			if err != nil || !ok {
				return err
			}
			opts.ResourceVersion = from
		}
		compare = true // for the next attempt
		opened, err := l.open(ctx, client, opts)
		if err != nil {
			return err
		}
		w = opened
		return w.stands(ctx)
	})
	if err != nil {
		return nil, err
	}
	if w == nil {
		l.logger.Info("The apiserver's pods differ from the pods held; listing all pods", "resourceVersion", at)
		return nil, apierrors.NewResourceExpired("the apiserver's pods differ from the pods held")
	}
	l.attempts.succeeded(ctx, w.first != nil)
	l.observe(ctx, w, !followsList)
	return w, nil
}

// compare compares the store, which is at a resourceVersion, with the apiserver. It returns the resourceVersion for the
// next watch, if there can be one.
func (l *listWatch) compare(ctx context.Context, client *client, at string) (from string, ok bool, err error) {
	// 0 means any state of the apiserver's cache.
	list, err := l.get(ctx, client, metav1.ListOptions{ResourceVersion: "0"}, metadataOnly)
	if err != nil {
		return "", false, err
	}
	pods, version, err := metadataOf(list)
	if err != nil {
		return "", false, err
	}
	from, ok = l.store.resume(pods, version, at)
	result := "same"
	if !ok {
		result = "other"
	}
	l.board.metrics.comparisons.WithLabelValues(result).Inc()
	return from, ok, nil
}

// metadataOf returns the metadata of the pods of a list, and its resourceVersion.
func metadataOf(list runtime.Object) (pods []*metav1.ObjectMeta, version string, err error) {
	switch list := list.(type) {
	case *metav1.PartialObjectMetadataList:
		for i := range list.Items {
			pods = append(pods, &list.Items[i].ObjectMeta)
		}
		return pods, list.ResourceVersion, nil
	case *v1.PodList:
		for i := range list.Items {
			pods = append(pods, &list.Items[i].ObjectMeta)
		}
		return pods, list.ResourceVersion, nil
	}
	return nil, "", fmt.Errorf("listing metadata of pods: expected a list, got %T", list)
}

// remedied reports whether the Reflector handles the error: it lists, at another
// resourceVersion, or without a watch.
func remedied(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotAcceptable(err) ||
		apierrors.IsMethodNotSupported(err) || undecodable(err)
}
