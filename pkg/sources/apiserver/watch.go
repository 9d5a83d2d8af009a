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
)

const (
	// standing is how long a watch must be there without an error to be one.
	standing = time.Second
	// silence is how long a watch may tell nothing, not even a bookmark, after it told
	// bookmarks. An apiserver tells one a minute, and goes on once it has begun to.
	silence = 150 * time.Second
	// maxWatch is longer than any watch that the Reflector asks for.
	maxWatch = 11 * time.Minute
)

var (
	errEnded  = errors.New("the connection was closed")
	errSilent = fmt.Errorf("no event and no bookmark for %v, after earlier bookmarks", silence)
)

// observedWatch is a watch whose events are noted on their way.
type observedWatch struct {
	inner  watch.Interface
	client *client
	cancel context.CancelCauseFunc
	// begun is when the watch began, or was done with its list, and at the resourceVersion
	// from which it went on then.
	begun time.Time
	at    string
	// lists: the events are a list, up to a bookmark. Then told: there were events since,
	// and bookmarks: among them bookmarks.
	lists, told, bookmarks bool
	// first is an event that was there when the watch began.
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
	ctx, cancel := context.WithCancelCause(ctx) // ends with the watch
	tooLong := time.AfterFunc(answerTimeout, func() {
		cancel(fmt.Errorf("there was no answer within %v", answerTimeout))
	})
	opts.FieldSelector = l.selector
	inner, err := client.rest.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Watch(ctx)
	if !tooLong.Stop() {
		if err == nil {
			inner.Stop()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &observedWatch{
		inner: inner, client: client, cancel: cancel, begun: time.Now(), at: opts.ResourceVersion, lists: opts.SendInitialEvents != nil,
		events: make(chan watch.Event), stopped: make(chan struct{}),
	}, nil
}

// stands returns once the watch has told something or gone on for a while. It returns
// why the watch is over, if it is: client-go makes an empty one of a connection that ends
// before there is an answer, and apiservers begin one to say that they can't.
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

// observe hands the watch's events on until there are no more, and notes why.
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

// hand hands events on, and returns why there are no more.
func (l *listWatch) hand(ctx context.Context, w *observedWatch) error {
	if w.first != nil {
		l.tell(ctx, w, *w.first)
	}
	patience := time.NewTimer(0)
	defer patience.Stop()
	for {
		limit, late := l.patience(w)
		patience.Reset(limit)
		select {
		case event, ok := <-w.inner.ResultChan():
			if err := failure(event, ok); err != nil {
				return err
			}
			l.tell(ctx, w, event)
		case <-patience.C:
			return late
		case <-w.stopped:
			return nil
		}
	}
}

// patience returns how long to wait for the next event, and what is wrong if none comes.
func (l *listWatch) patience(w *observedWatch) (time.Duration, error) {
	switch {
	case w.lists:
		return answerTimeout, fmt.Errorf("there was no event for %v", answerTimeout)
	case w.bookmarks || l.gate.isSilent():
		return silence, errSilent
	}
	return maxWatch, errEnded
}

// tell hands one event on.
func (l *listWatch) tell(ctx context.Context, w *observedWatch, event watch.Event) {
	l.board.event(event)
	pod, _ := event.Object.(*v1.Pod)
	switch {
	case !w.lists:
		w.told = true
		w.bookmarks = w.bookmarks || event.Type == watch.Bookmark
	case event.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		w.lists, w.begun, w.at = false, time.Now(), pod.ResourceVersion
		l.board.listed()
	}
	if !w.lists {
		l.gate.succeeded(ctx, true)
	}
	w.send(event)
}

// ended notes why a watch ended that nobody stopped. One that lasted may just end: the
// next goes on from where it was.
func (l *listWatch) ended(ctx context.Context, w *observedWatch, err error) {
	lasted := !w.lists && time.Since(w.begun) >= lasting
	if lasted {
		l.gate.calm()
	}
	switch {
	case l.connector.replaced(w.client), lasted && errors.Is(err, errEnded):
	case w.lists:
		l.gate.failed(ctx, fmt.Errorf("watching pods: the watch ended before its initial list was complete: %w", err), 0)
	default:
		l.gate.failed(ctx, fmt.Errorf("watching pods: %w", err), 0)
	}
	switch {
	case w.lists: // the Reflector lists, rather than to watch a list again
		status := apierrors.NewInternalError(err).ErrStatus
		w.send(watch.Event{Type: watch.Error, Object: &status})
	case !w.told: // it lists after a watch that told nothing and was short, too
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

// failure returns why an event is the end of a watch, if it is.
func failure(event watch.Event, ok bool) error {
	if !ok {
		return errEnded
	}
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	if _, ok := event.Object.(*v1.Pod); !ok {
		return fmt.Errorf("an event is of a %T, not of a pod", event.Object)
	}
	return nil
}

// undecodable tells whether the error is client-go's word that it could not read an event.
func undecodable(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding")
}
