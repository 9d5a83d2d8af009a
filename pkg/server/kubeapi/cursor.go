package kubeapi

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// cursor is the position of a watch in the journal.
type cursor interface {
	// next waits for events, and returns a function that encodes them into the stream. The error is a
	// CompactedError, the cause of the context, or an error of the scope.
	next(ctx context.Context, s *stream) (encode func() error, err error)
	Close()
}

// eventType returns the type of an event.
func eventType(op config.PodOperation) watch.EventType {
	switch op {
	case config.ADD:
		return watch.Added
	case config.REMOVE:
		return watch.Deleted
	case config.BOOKMARK:
		return watch.Bookmark
	}
	return watch.Modified
}

// podCursor watches pods.
type podCursor struct{ *view.Cursor }

func watchPods(a *API, r *http.Request, o *options) cursor {
	opts := view.NamesOptions{Options: view.Options{Selector: o.selector}, Since: a.since(o)}
	opts.Client, opts.Drained = conn.HTTPClient(r)
	return podCursor{o.scope.Names(opts)}
}

func (c podCursor) next(ctx context.Context, s *stream) (func() error, error) {
	frames, err := c.Next(ctx)
	return func() error {
		for i, f := range frames {
			frames[i] = nil
			if err := s.frame(f); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// frame encodes the events of a frame.
func (s *stream) frame(f *view.Frame) error {
	if f.Op == config.BOOKMARK {
		return s.mark(f.Revision, f.InitialSyncComplete)
	}
	for i, pod := range f.Pods {
		if err := s.object(eventType(f.Op), podItem{pod}, f.Revisions[i]); err != nil {
			return err
		}
	}
	return nil
}

// objectCursor watches nodes or namespaces.
type objectCursor struct{ *view.ObjectsCursor }

func watchObjects(kind journal.Kind) func(*API, *http.Request, *options) cursor {
	return func(a *API, r *http.Request, o *options) cursor {
		return a.watchObjects(r, o, view.ObjectsOptions{Kind: kind, Match: o.selects})
	}
}

// watchNothing watches a resource that never has objects.
func watchNothing(a *API, r *http.Request, o *options) cursor {
	return a.watchObjects(r, o, view.ObjectsOptions{Match: func(*journal.Object) bool { return false }})
}

func (a *API) watchObjects(r *http.Request, o *options, opts view.ObjectsOptions) cursor {
	opts.Since = a.since(o)
	opts.Client, _ = conn.HTTPClient(r)
	return objectCursor{o.scope.WatchObjects(opts)}
}

func (c objectCursor) next(ctx context.Context, s *stream) (func() error, error) {
	events, err := c.Next(ctx)
	return func() error {
		for _, e := range events {
			var err error
			if e.Op == config.BOOKMARK {
				err = s.mark(e.Revision, e.InitialSyncComplete)
			} else {
				err = s.object(eventType(e.Op), objectItem{e.Object}, e.Revision)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, err
}
