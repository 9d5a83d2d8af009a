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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// standing is how long a watch must last without an error to count as started.
	standing = time.Second
	// silence is how long a watch may have no event and no bookmark. An apiserver sends a bookmark each minute. With
	// the list after it, a change is missed for 150 seconds at most.
	silence = 140 * time.Second
	// listSilence is how long a watch that lists may have no event before the bookmark that ends the list. The list as
	// a whole may take as long as a plain list, answerTimeout.
	listSilence = 10 * time.Second
)

var (
	errNoAnswer = fmt.Errorf("no answer within %v", answerTimeout)

	errEnded  = sources.Because(sources.ReasonWatchEnded, errors.New("the connection was closed"))
	errSilent = sources.Because(sources.ReasonWatchEnded, fmt.Errorf("no event and no bookmark for %v, after earlier bookmarks", silence))
	errNoEnd  = sources.Because(sources.ReasonWatchEnded, errors.New("no bookmark that ends the list"))
	// errQuiet ends a watch that never had a bookmark. It is no failure: some servers have none.
	errQuiet = errors.New("no event for a long time")
)

// stream is a watch whose events are recorded. It ends when it is silent.
type stream struct {
	*listWatch
	client *client
	inner  watch.Interface
	cancel context.CancelCauseFunc
	// limit is when the apiserver should have ended the watch.
	limit <-chan time.Time
	// outer is for the Reflector, which receives from events.
	outer  *watch.ProxyWatcher
	events chan watch.Event

	// lists means that the events are part of the initial list, which ends with a bookmark. stands means that the
	// watch counts as started, and bookmarks that it had a bookmark after the list.
	lists, stands, bookmarks bool
	// begun is when the watch started, or completed its list. heard is the time of the last event.
	begun, heard time.Time
}

// start makes a request for a watch, and waits for the start of the answer.
func (l *listWatch) start(ctx context.Context, client *client, opts metav1.ListOptions) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	tooLong := time.AfterFunc(answerTimeout, func() { cancel(errNoAnswer) })
	inner, err := l.request(client, &opts, l.acceptWatch).Watch(ctx)
	if !tooLong.Stop() {
		if err == nil {
			inner.Stop()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	now, events := time.Now(), make(chan watch.Event)
	return &stream{
		listWatch: l, client: client, inner: inner, cancel: cancel, events: events, outer: watch.NewProxyWatcher(events),
		limit: time.After(time.Duration(*opts.TimeoutSeconds)*time.Second + answerTimeout),
		lists: opts.SendInitialEvents != nil, begun: now, heard: now,
	}, nil
}

// run forwards events until there are no more, and records why.
func (s *stream) run(ctx context.Context) {
	defer close(s.events)
	defer s.cancel(nil)
	defer s.inner.Stop()
	s.board.watching()
	defer s.board.watchEnded()
	err := s.forward(ctx)
	if err == nil {
		return
	}
	lasted := !s.lists && time.Since(s.begun) >= lasting
	if lasted {
		s.attempts.calm()
	}
	switch {
	case s.connector.replaced(s.client), lasted && errors.Is(err, errEnded), errors.Is(err, errQuiet):
	case s.lists:
		s.failed(ctx, fmt.Errorf("watching %s: the watch ended before its initial list was complete: %w", s.resource, err), 0)
	default:
		s.failed(ctx, fmt.Errorf("watching %s: %w", s.resource, err), 0)
	}
	if s.lists { // the Reflector lists, instead of watching a list again
		s.plain = errors.Is(err, errNoEnd)
		s.send(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus})
	}
}

// forward forwards events. It returns why there are no more, or nil if the Reflector needs no more.
func (s *stream) forward(ctx context.Context) error {
	patience := time.NewTimer(0)
	defer patience.Stop()
	for {
		until, late := s.patience()
		patience.Reset(time.Until(until))
		select {
		case event, ok := <-s.inner.ResultChan():
			if err := s.failure(event, ok); err != nil {
				return err
			}
			s.received(ctx, event)
			s.send(event)
			s.heard = time.Now() // the Reflector may have taken long
		case <-patience.C:
			if late != nil {
				return late
			}
			s.stands = true
			s.attempts.succeeded(ctx, false)
		case <-s.limit:
			return errEnded
		case <-s.outer.StopChan():
			return nil
		}
	}
}

// patience returns until when there must be an event, and the error if there is none; nil if the watch stands then.
func (s *stream) patience() (time.Time, error) {
	switch {
	case s.lists && time.Since(s.begun) < answerTimeout-listSilence:
		return s.heard.Add(listSilence), errNoEnd
	case s.lists:
		return s.begun.Add(answerTimeout), errNoEnd
	case !s.stands:
		return s.begun.Add(standing), nil
	case s.bookmarks || s.attempts.isSilent():
		return s.heard.Add(silence), errSilent
	}
	return s.heard.Add(silence), errQuiet
}

// received records an event.
func (s *stream) received(ctx context.Context, event watch.Event) {
	s.board.event()
	if !s.lists {
		s.stands = true
		s.bookmarks = s.bookmarks || event.Type == watch.Bookmark
		s.attempts.succeeded(ctx, true)
		return
	}
	object, err := meta.Accessor(event.Object)
	if err == nil && event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		s.lists, s.begun = false, time.Now()
		s.board.listed()
	}
}

// send hands an event to the Reflector.
func (s *stream) send(event watch.Event) {
	select {
	case s.events <- event:
	case <-s.outer.StopChan():
	}
}

// failure returns the error if an event ends the watch.
func (s *stream) failure(event watch.Event, ok bool) error {
	switch {
	case !ok:
		return errEnded
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	case reflect.TypeOf(event.Object) != reflect.TypeOf(s.object):
		return fmt.Errorf("expected an event of a %T, got %T", s.object, event.Object)
	}
	return nil
}
