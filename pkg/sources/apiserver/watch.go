package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// standing is how long a watch must last without an error to count as started.
	standing = time.Second
	// silence is how long a watch may have no event and no bookmark, after earlier
	// bookmarks. An apiserver sends a bookmark each minute, after it has sent the first.
	silence = 150 * time.Second
	// maxWatch is longer than any watch of the Reflector.
	maxWatch = 11 * time.Minute
)

var (
	errEnded  = sources.Because(sources.ReasonWatchEnded, errors.New("the connection was closed"))
	errSilent = sources.Because(sources.ReasonWatchEnded, fmt.Errorf("no event and no bookmark for %v, after earlier bookmarks", silence))
)

// observedWatch is a watch whose events are recorded.
type observedWatch struct {
	inner  watch.Interface
	client *client
	cancel context.CancelCauseFunc
	// begun is the time at which the watch started, or completed its list. at is its
	// resourceVersion then.
	begun time.Time
	at    string
	// lists means that the events are part of the initial list, which ends with a bookmark. active means
	// that there was an event after the list, and bookmarks that there was a bookmark after it.
	lists, active, bookmarks bool
	// first is an event that came with the start of the watch.
	first   *watch.Event
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

// open makes one request for a watch.
func (l *listWatch) open(ctx context.Context, client *client, opts metav1.ListOptions) (*observedWatch, error) {
	opts.FieldSelector = l.selector
	inner, cancel, err := startWatch(ctx, client.rest.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0))
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &observedWatch{
		inner: inner, client: client, cancel: cancel, begun: time.Now(), at: opts.ResourceVersion, lists: opts.SendInitialEvents != nil,
		events: make(chan watch.Event), stopped: make(chan struct{}),
	}, nil
}

// startWatch makes a request for a watch, and waits for the start of the answer. cancel ends the watch.
func startWatch(ctx context.Context, request *rest.Request) (w watch.Interface, cancel context.CancelCauseFunc, err error) {
	ctx, cancel = context.WithCancelCause(ctx)
	tooLong := time.AfterFunc(answerTimeout, func() { cancel(fmt.Errorf("no answer within %v", answerTimeout)) })
	w, err = request.Watch(ctx)
	if !tooLong.Stop() {
		if err == nil {
			w.Stop()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return w, cancel, nil
}

// stands returns after the watch has had an event or has lasted for some time. If the
// watch is over, it returns why. client-go makes an empty watch of a connection that ends
// before there is an answer, and apiservers start a watch only to send an error.
func (w *observedWatch) stands(ctx context.Context) (err error) {
	select {
	case event, ok := <-w.inner.ResultChan():
		if err = failure(event, ok); err == nil {
			w.first = &event
		} else {
			err = fmt.Errorf("watching pods: the watch ended at once: %w", err)
		}
	case <-time.After(standing):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		w.inner.Stop()
		w.cancel(nil)
	}
	return err
}

// observe forwards the watch's events until there are no more, and records why it ended.
func (l *listWatch) observe(ctx context.Context, w *observedWatch, again bool) {
	l.board.watching(again)
	l.calls.running.Go(func() {
		defer close(w.events)
		defer w.cancel(nil)
		defer l.board.watchEnded()
		err := l.hand(ctx, w)
		w.inner.Stop()
		select {
		case <-w.stopped:
		default:
			l.ended(ctx, w, err)
		}
	})
}

// hand forwards events, and returns why there are no more.
func (l *listWatch) hand(ctx context.Context, w *observedWatch) error {
	if w.first != nil {
		l.forward(ctx, w, *w.first, time.Now())
	}
	patience := time.NewTimer(0)
	defer patience.Stop()
	for {
		limit, late := l.patience(w)
		patience.Reset(limit)
		idle := time.Now()
		select {
		case event, ok := <-w.inner.ResultChan():
			at := l.store.arrivals.received(idle)
			if err := failure(event, ok); err != nil {
				return err
			}
			l.forward(ctx, w, event, at)
		case <-patience.C:
			return late
		case <-w.stopped:
			return nil
		}
	}
}

// patience returns the wait for the next event, and the error if none comes.
func (l *listWatch) patience(w *observedWatch) (time.Duration, error) {
	switch {
	case w.lists:
		return answerTimeout, fmt.Errorf("no event for %v", answerTimeout)
	case w.bookmarks || l.attempts.isSilent():
		return silence, errSilent
	}
	return maxWatch, errEnded
}

// forward forwards one event, which arrived at the time.
func (l *listWatch) forward(ctx context.Context, w *observedWatch, event watch.Event, at time.Time) {
	l.board.event(event)
	pod, _ := event.Object.(*v1.Pod)
	switch {
	case !w.lists:
		w.active = true
		if event.Type == watch.Bookmark {
			w.bookmarks = true
		} else {
			l.store.arrivals.event(event.Object, at)
		}
	case event.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		w.lists, w.begun, w.at = false, time.Now(), pod.ResourceVersion
		l.board.listed()
		l.store.arrivals.listed(at)
	}
	if !w.lists {
		l.attempts.succeeded(ctx, true)
	}
	w.send(event)
}

// ended records why a watch ended, unless it was stopped. A watch that has lasted may end
// without an error: the next one resumes.
func (l *listWatch) ended(ctx context.Context, w *observedWatch, err error) {
	lasted := !w.lists && time.Since(w.begun) >= lasting
	if lasted {
		l.attempts.calm()
	}
	switch {
	case l.connector.replaced(w.client), lasted && errors.Is(err, errEnded):
	case w.lists:
		l.attempts.failed(ctx, fmt.Errorf("watching pods: the watch ended before its initial list was complete: %w", err), 0)
	default:
		l.attempts.failed(ctx, fmt.Errorf("watching pods: %w", err), 0)
	}
	switch {
	case w.lists: // the Reflector lists, instead of watching a list again
		status := apierrors.NewInternalError(err).ErrStatus
		w.send(watch.Event{Type: watch.Error, Object: &status})
	case !w.active: // the Reflector also lists after a short watch without events
		w.send(watch.Event{Type: watch.Bookmark, Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: w.at}}})
	}
}

// send hands an event to the Reflector.
func (w *observedWatch) send(event watch.Event) {
	select {
	case w.events <- event:
	case <-w.stopped:
	}
}

// failure returns the error if an event ends the watch.
func failure(event watch.Event, ok bool) error {
	if !ok {
		return errEnded
	}
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	if _, ok := event.Object.(*v1.Pod); !ok {
		return fmt.Errorf("expected an event of a Pod, got %T", event.Object)
	}
	return nil
}

// undecodable reports whether client-go failed to decode an event.
func undecodable(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding")
}
