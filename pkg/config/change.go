package config

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// AddSource adds a source while Run runs. Its update comes before all sets of the source, so
// that the source is not seen before its first set. The error is the cause of the context.
func (c *PodConfig) AddSource(ctx context.Context, source string) error {
	return c.calls.Do(ctx, func(ctx context.Context) error {
		c.Channel(source)
		return c.send(ctx, PodUpdate{Op: BOOKMARK, Source: source, Pods: []*v1.Pod{}, Change: SourceAdded})
	})
}

// RemoveSource removes a source and its pods while Run runs, whatever the limit of removals.
// The source must have ended. Sets that it sent before may be left out. The error is the cause
// of the context.
func (c *PodConfig) RemoveSource(ctx context.Context, source string) error {
	c.mux.remove(source)
	return c.calls.Do(ctx, func(ctx context.Context) error {
		c.setHeld(source, nil)
		c.mu.Lock()
		c.sources.Delete(source)
		c.mu.Unlock()
		pods := c.storage.forget(source)
		klog.FromContext(ctx).Info("Removing the pods of a source that is no longer configured", "source", source, "pods", len(pods))
		return c.send(ctx, PodUpdate{Op: REMOVE, Source: source, Pods: pods, Change: SourceRemoved})
	})
}

// DropSets drops the sets of a source that are not merged: the held one, and one that is on its
// way. Its pods stay. The source must have ended. Another one in its place gets a new Channel. The
// error is the cause of the context.
func (c *PodConfig) DropSets(ctx context.Context, source string) error {
	c.mux.remove(source)
	return c.calls.Do(ctx, func(ctx context.Context) error {
		if held := c.setHeld(source, nil); held != nil {
			klog.FromContext(ctx).Info("Dropped a held set: the configuration of the source changed", "source", source, "origin", held.set.Origin)
		}
		return nil
	})
}

// forget removes the source, and returns its pods in the order of an update.
func (s *podStorage) forget(source string) []*v1.Pod {
	pods := []*v1.Pod{}
	if of := s.sources[source]; of != nil {
		for _, entry := range of.byUID {
			pods = append(pods, entry.pod)
		}
	}
	delete(s.sources, source)
	slices.SortFunc(pods, ComparePods)
	return pods
}
