package kubeapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// viewOptions returns the options of the view of a watch.
func (o *options) viewOptions(r *http.Request) view.Options {
	return view.Options{Selector: o.selector, Client: conn.HTTPClient(r)}
}

func watchPods(a *API, r *http.Request, o *options) *view.Cursor {
	return o.scope.Names(view.NamesOptions{Options: o.viewOptions(r), Since: a.since(o)})
}

// watchObjects watches nodes or namespaces.
func watchObjects(kind journal.Kind) func(*API, *http.Request, *options) *view.Cursor {
	return func(a *API, r *http.Request, o *options) *view.Cursor {
		return o.scope.WatchObjects(view.ObjectsOptions{Options: o.viewOptions(r), Kind: kind, Match: o.selects, Since: a.since(o)})
	}
}

// frames encodes the events of frames, and releases the frames.
func (s *stream) frames(frames []*view.Frame) error {
	for i, f := range frames {
		frames[i] = nil
		if err := s.frame(f); err != nil {
			return err
		}
	}
	return nil
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
	for _, e := range f.Objects {
		if err := s.object(eventType(e.Op), objectItem{e.Object}, e.Revision); err != nil {
			return err
		}
	}
	return nil
}

// eventType returns the type of an event.
func eventType(op config.PodOperation) watch.EventType {
	switch op {
	case config.ADD:
		return watch.Added
	case config.REMOVE:
		return watch.Deleted
	}
	return watch.Modified
}
