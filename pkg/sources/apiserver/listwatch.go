package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// listWatch is how the Reflector asks: of whichever client is current, until there is
// an answer, and seen by the board.
func (s *Source) listWatch() *cache.ListWatch {
	selector := fields.OneTermEqualSelector("spec.nodeName", string(s.node)).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			// The Reflector does not wait for a list that it no longer wants, and may even
			// begin one then.
			if !s.calls.begin() {
				return nil, context.Cause(ctx)
			}
			defer s.calls.running.Done()
			opts.FieldSelector = selector
			return s.list(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = selector
			return s.watch(ctx, opts)
		},
	}
}

func (s *Source) list(ctx context.Context, opts metav1.ListOptions) (*v1.PodList, error) {
	list := &v1.PodList{}
	err := s.ask(ctx, remedied, func(ctx context.Context, client rest.Interface) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		return client.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Do(ctx).Into(list)
	})
	if err != nil {
		return nil, err
	}
	if list.Continue == "" {
		s.board.listed()
	}
	return list, nil
}

func (s *Source) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	w := &observedWatch{events: make(chan watch.Event), stopped: make(chan struct{})}
	err := s.ask(ctx, remedied, func(ctx context.Context, client rest.Interface) error {
		ctx, cancel := context.WithCancelCause(ctx) // ends with the watch
		tooLong := time.AfterFunc(answerTimeout, func() {
			cancel(fmt.Errorf("there was no answer within %v", answerTimeout))
		})
		var err error
		w.inner, err = client.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Watch(ctx)
		w.cancel = cancel
		if !tooLong.Stop() && err == nil {
			w.inner.Stop()
			err = context.Cause(ctx)
		}
		if err == nil {
			err = w.begin()
		}
		if err != nil {
			cancel(nil)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.board.watching(opts.SendInitialEvents != nil)
	s.calls.running.Go(func() { w.run(s.board) })
	return w, nil
}

// remedied tells whether the Reflector has a remedy for the error: to list anew, at
// another resourceVersion, or rather than to watch a list.
func remedied(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotAcceptable(err)
}

// observedWatch is a watch whose events are noted on their way.
type observedWatch struct {
	inner watch.Interface
	// first is an event that was there when the watch began.
	first   *watch.Event
	cancel  context.CancelCauseFunc
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *observedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *observedWatch) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.inner.Stop()
	})
}

// begin returns an error where the watch is over already: client-go makes an empty one
// of a connection that ends before there is an answer.
func (w *observedWatch) begin() error {
	select {
	case event, ok := <-w.inner.ResultChan():
		if !ok || connectionBroke(event) {
			return errors.New("the connection ended before there was an answer")
		}
		w.first = &event
	default:
	}
	return nil
}

// run hands the events on until there are no more, also of those that nobody wants.
func (w *observedWatch) run(board *board) {
	defer close(w.events)
	defer w.cancel(nil)
	defer board.watchEnded()
	hand := func(event watch.Event) {
		board.event(event)
		select {
		case w.events <- event:
		case <-w.stopped:
		}
	}
	if w.first != nil {
		hand(*w.first)
	}
	for event := range w.inner.ResultChan() {
		if !connectionBroke(event) {
			hand(event)
		}
	}
}

// connectionBroke tells whether the event is client-go's word that it could not read
// on, rather than the apiserver's. The watch ends with it, and goes on from where it
// was; told of an error, the Reflector would list everything anew.
func connectionBroke(event watch.Event) bool {
	if event.Type != watch.Error {
		return false
	}
	_, ok := apierrors.StatusCause(apierrors.FromObject(event.Object), "ClientWatchDecoding")
	return ok
}

// endsInitialEvents tells whether the event is the bookmark after those that make up
// a list.
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
