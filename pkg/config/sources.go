package config

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Restore adds a source with the pods that it had before a restart. They count until the
// first set of the source, which is compared with them. The pods have the annotations of
// the merge. Restore is called before Run, once for a source.
func (c *PodConfig) Restore(source string, pods []*v1.Pod) {
	c.storage.restore(source, pods)
}

func (s *podStorage) restore(source string, set []*v1.Pod) {
	pods := newSourcePods(len(set))
	for _, pod := range set {
		pods.put(&podEntry{pod: pod, restored: true}, pod)
	}
	pods.last = set
	s.sources[source] = pods
}

// compareRestored is checkAndUpdatePod for a pod that was read from disk. There it was
// protobuf, in which an empty list and a missing one are the same. So the new version is
// compared in that form. The pod to store has the fields of the source, so that the next
// comparison is the usual one.
func compareRestored(existing, ref *v1.Pod) (*v1.Pod, change) {
	what := updated
	if same, err := throughProtobuf(ref); err == nil {
		_, what = checkAndUpdatePod(existing, same)
	}
	return updatedPod(existing, ref), what
}

func throughProtobuf(pod *v1.Pod) (*v1.Pod, error) {
	data, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	same := new(v1.Pod)
	err = same.Unmarshal(data)
	return same, err
}

// AddSource adds a source while Run runs. Its update comes before all sets of the source, so
// that the source is not seen before its first set. The error is the cause of the context.
func (c *PodConfig) AddSource(ctx context.Context, source string) error {
	return c.calls.Do(ctx, func(ctx context.Context) error {
		c.Channel(source)
		return c.send(ctx, PodUpdate{Op: BOOKMARK, Source: source, Pods: []*v1.Pod{}, Change: SourceAdded})
	})
}

// RemoveSource removes a source and its pods while Run runs. The limit of removals does not apply.
// The source must have ended. Its last sets may not be merged any more. The error is the cause
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

// DropSets drops the sets of a source that are not merged yet: the held set, and a set that was sent. The pods
// of the source stay. The source must have ended. Its successor gets a new Channel. The
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
