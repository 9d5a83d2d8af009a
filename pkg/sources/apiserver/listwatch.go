package apiserver

import (
	"context"
	"errors"
	"fmt"

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

// metadataOnly accepts a list of the metadata of pods.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// listWatch is how the Reflector asks for the pods that the store is to have.
type listWatch struct {
	*Source
	logger   klog.Logger
	store    *store
	selector string
	// listed: the watch to come follows a list.
	listed bool
}

func (s *Source) listWatch(logger klog.Logger, store *store) *cache.ListWatch {
	l := &listWatch{
		Source: s, logger: logger, store: store,
		selector: fields.OneTermEqualSelector("spec.nodeName", string(s.node)).String(),
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			// The Reflector does not wait for a list that it no longer wants, and may even
			// begin one then.
			if !s.calls.begin() {
				return nil, context.Cause(ctx)
			}
			defer s.calls.running.Done()
			return l.list(klog.NewContext(ctx, logger), opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			ctx = klog.NewContext(ctx, logger)
			opts.Watch = true
			if opts.SendInitialEvents != nil {
				return l.watchList(ctx, opts)
			}
			return l.watch(ctx, opts)
		},
	}
}

// list lists whole pods.
func (l *listWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list := &v1.PodList{}
	err := l.ask(ctx, remedied, func(ctx context.Context, client *client) error {
		return l.get(ctx, client, opts, "", list)
	})
	if err != nil {
		return nil, err
	}
	if list.Continue == "" {
		l.board.listed()
		l.listed = true
	}
	return list, nil
}

// get makes one request for a list.
func (l *listWatch) get(ctx context.Context, client *client, opts metav1.ListOptions, accept string, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	opts.FieldSelector = l.selector
	request := client.rest.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0)
	if accept != "" {
		request.SetHeader("Accept", accept)
	}
	if err := request.Do(ctx).Into(into); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	if list, err := meta.ListAccessor(into); err != nil || list.GetResourceVersion() == "" {
		return errors.New("the answer is not a list from an apiserver: it has no resourceVersion")
	}
	return nil
}

// watchList begins a watch that lists whole pods first.
func (l *listWatch) watchList(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.ResourceVersion = "" // the newest: the apiserver may have gone back in time
	var w *observedWatch
	err := l.ask(ctx, remedied, func(ctx context.Context, client *client) (err error) {
		w, err = l.open(ctx, client, opts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watching a list: %v", err) //nolint:errorlint // whatever it is, the Reflector is to list
	}
	l.observe(ctx, w, false)
	return w, nil
}

// watch begins a watch that goes on from a resourceVersion. If it does not follow a list,
// the store is compared with what the apiserver has first: without a watch there is no
// knowing whether that is what it was. Another may have taken its place, or it may have
// been restored from a backup, and neither has to show in how connections fail.
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
		compare = true // if there is another attempt
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
		l.logger.Info("The apiserver does not have the pods that are held; listing all pods", "resourceVersion", at)
		return nil, apierrors.NewResourceExpired("the apiserver does not have the pods that are held")
	}
	l.gate.succeeded(ctx, w.first != nil)
	l.observe(ctx, w, !followsList)
	return w, nil
}

// compare returns from where a watch can go on, if one can.
func (l *listWatch) compare(ctx context.Context, client *client, at string) (from string, ok bool, err error) {
	list := &metav1.PartialObjectMetadataList{}
	// 0 is whatever the apiserver's cache has.
	if err := l.get(ctx, client, metav1.ListOptions{ResourceVersion: "0"}, metadataOnly, list); err != nil {
		return "", false, err
	}
	from, ok = l.store.resume(list, at)
	result := "same"
	if !ok {
		result = "other"
	}
	l.metrics.comparisons.WithLabelValues(result).Inc()
	return from, ok, nil
}

// remedied tells whether the Reflector has a remedy for the error: to list, at another
// resourceVersion, or rather than to watch a list.
func remedied(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotAcceptable(err) ||
		apierrors.IsMethodNotSupported(err) || undecodable(err)
}
