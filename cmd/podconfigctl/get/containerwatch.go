package get

import (
	"context"
	"maps"
	"reflect"
	"slices"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// containerWatch prints containers that change.
type containerWatch struct {
	*containerPrinter

	opts *ContainerOptions
	// known has the containers as they were received last, by ID.
	known map[string]*v1alpha1.PodContainer
}

// run prints the containers of the list, and then the changes after it until ctx ends.
func (w *containerWatch) run(ctx context.Context, c *client.Client, query client.ContainerOptions, list *v1alpha1.Containers) error {
	if events := w.replace(list.Containers); !w.opts.watchOnly {
		if err := w.print(events...); err != nil {
			return err
		}
	}
	query.Instance, query.Since = list.Instance, list.Revision
	var present []v1alpha1.PodContainer // after a reset
	reset := false
	for u, err := range c.WatchContainers(ctx, query) {
		if err != nil {
			return cli.AsFlags(err)
		}
		switch {
		case u.Reset:
			reset, present = true, nil
		case u.InitialSyncComplete && reset:
			err, reset = w.print(w.replace(present)...), false
		case u.Container == nil:
		case reset:
			present = append(present, *u.Container)
		case !u.Container.Sandbox || w.opts.sandboxes:
			err = w.print(w.take(containerEvent{eventOf[u.Op], u.Container}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventOf has the words of kubectl for what happened.
var eventOf = map[v1alpha1.Op]apiwatch.EventType{
	v1alpha1.OpAdd: apiwatch.Added, v1alpha1.OpUpdate: apiwatch.Modified, v1alpha1.OpRemove: apiwatch.Deleted,
}

// take makes an event known.
func (w *containerWatch) take(e containerEvent) containerEvent {
	if w.known[e.Object.ID] = e.Object; e.Type == apiwatch.Deleted {
		delete(w.known, e.Object.ID)
	}
	return e
}

// replace returns how the containers of a list differ from those that are known, which it replaces.
func (w *containerWatch) replace(all []v1alpha1.PodContainer) (events []containerEvent) {
	all = w.opts.listed(all)
	gone := maps.Clone(w.known)
	for i := range all {
		delete(gone, all[i].ID)
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		events = append(events, w.take(containerEvent{apiwatch.Deleted, gone[id]}))
	}
	for i := range all {
		switch c := &all[i]; {
		case w.known[c.ID] == nil:
			events = append(events, w.take(containerEvent{apiwatch.Added, c}))
		case !reflect.DeepEqual(w.known[c.ID], c):
			events = append(events, w.take(containerEvent{apiwatch.Modified, c}))
		}
	}
	return events
}
