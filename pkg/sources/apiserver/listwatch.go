package apiserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// listWatch makes the requests of a Reflector. Each watch begins with a list: either the watch lists the objects
// itself, or it follows a list. So the objects become equal to those of the apiserver each time a watch has ended for
// any reason, even if the apiserver was restored from a backup or replaced.
type listWatch struct {
	*Source
	resource, selector string
	// object and objects are the types of an object and of a list. acceptList and acceptWatch are the values of the
	// Accept header.
	object, objects         runtime.Object
	acceptList, acceptWatch string
	board                   *board
	attempts                *attempts
	// onFailure is called after each failure.
	onFailure func()

	// listed means that a list was complete, and that no watch followed yet.
	listed bool
	// plain means that the apiserver can't list in a watch. Before Kubernetes 1.34, it refuses the request. Another
	// server may not answer it, ignore that the watch must list, or not send the bookmark that ends the list.
	plain bool
}

// errPlain makes the Reflector list.
var errPlain = errors.New("the apiserver can't list in a watch")

// reflector returns a Reflector that fills the store.
func (l *listWatch) reflector(ctx context.Context, store cache.ReflectorStore) *cache.Reflector {
	logger := klog.FromContext(ctx)
	return cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			// The Reflector does not wait for a list that it no longer needs, and may
			// even start one then.
			if !l.calls.begin() {
				return nil, context.Cause(ctx)
			}
			defer l.calls.running.Done()
			return l.list(klog.NewContext(ctx, logger), opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return l.watch(klog.NewContext(ctx, logger), opts)
		},
	}, l.object, store, cache.ReflectorOptions{
		Name: l.resource, Logger: &logger,
		Backoff: &wait.Backoff{}, // none: attempts has the backoff
	})
}

func (l *listWatch) request(client *client, opts *metav1.ListOptions, accept string) *rest.Request {
	opts.FieldSelector = l.selector
	return client.rest.Get().Resource(l.resource).VersionedParams(opts, metav1.ParameterCodec).SetHeader("Accept", accept).MaxRetries(0)
}

// list makes one request for a list.
func (l *listWatch) list(ctx context.Context, opts metav1.ListOptions) (list runtime.Object, err error) {
	err = l.attempt(ctx, func(ctx context.Context, client *client) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		list, err = l.request(client, &opts, l.acceptList).Do(ctx).Get()
		if err == nil {
			err = l.usable(list)
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", l.resource, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if list, err := meta.ListAccessor(list); err == nil && list.GetContinue() == "" {
		l.board.listed()
		l.listed = true
	}
	return list, nil
}

// usable returns why a list is not the answer of an apiserver.
func (l *listWatch) usable(list runtime.Object) error {
	if reflect.TypeOf(list) != reflect.TypeOf(l.objects) {
		return fmt.Errorf("expected a %T, got %T", l.objects, list)
	}
	if list, err := meta.ListAccessor(list); err != nil || list.GetResourceVersion() == "" {
		return errors.New("expected a list of an apiserver, got one without a resourceVersion")
	}
	return nil
}

// watch makes one request for a watch. If the watch can't begin with a list, the Reflector has to list.
func (l *listWatch) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	lists := opts.SendInitialEvents != nil
	switch {
	case lists && l.plain:
		return nil, errPlain
	case lists:
		opts.ResourceVersion = "" // the newest: the apiserver may have been restored
	case !l.listed:
		return nil, apierrors.NewResourceExpired("the watch has ended: the next one begins with a list")
	}
	l.listed = false
	opts.Watch = true
	var s *stream
	var invalid error
	err := l.attempt(ctx, func(ctx context.Context, client *client) (err error) {
		s, err = l.start(ctx, client, opts)
		switch {
		case err == nil:
			return nil
		case lists && apierrors.IsInvalid(err):
			invalid = err
			return nil
		}
		return fmt.Errorf("watching %s: %w", l.resource, err)
	})
	switch {
	case err == nil && invalid == nil:
		l.calls.running.Go(func() { s.run(ctx) })
		return s.outer, nil
	case lists:
		l.plain = invalid != nil || errors.Is(err, errNoAnswer) ||
			apierrors.IsBadRequest(err) || apierrors.IsNotAcceptable(err) || apierrors.IsMethodNotSupported(err)
		return nil, errPlain // whatever the error is: the Reflector watches a list again after some
	}
	return nil, err
}

// attempt waits for the next attempt, and makes a request. It records a failure.
func (l *listWatch) attempt(ctx context.Context, do func(context.Context, *client) error) error {
	retryAfter, err := l.try(ctx, l.attempts, do)
	if err != nil {
		l.failed(ctx, err, retryAfter)
	}
	return err
}

func (l *listWatch) failed(ctx context.Context, err error, retryAfter time.Duration) {
	l.attempts.failed(ctx, err, retryAfter)
	l.onFailure()
}
