package config

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// updatesBuffer is the kubelet's: how many updates wait for the reader before the
// merge does.
const updatesBuffer = 50

// PodConfig merges the sets of many sources into one series of updates.
//
// kubelet: pkg/kubelet/config/config.go PodConfig.
type PodConfig struct {
	mux     *mux
	storage *podStorage
	updates chan PodUpdate

	// mu guards sources and seen, and is held for their reading and writing only.
	mu      sync.Mutex
	sources sets.Set[string]
	seen    sets.Set[string]
}

// NewPodConfig returns a PodConfig without any source. It does nothing before Run.
func NewPodConfig() *PodConfig {
	return &PodConfig{
		mux:     newMux(),
		storage: newPodStorage(),
		updates: make(chan PodUpdate, updatesBuffer),
		sources: sets.New[string](),
		seen:    sets.New[string](),
	}
}

// Channel adds a source of that name, if it is not there yet, and returns the
// channel on which it sends its sets. It may be called before and during Run. A
// source must select on its context at each send and never close the channel.
// The name must not be empty.
func (c *PodConfig) Channel(source string) chan<- SourceSet {
	if source == "" {
		panic("config: Channel was given an empty source name")
	}
	c.mu.Lock()
	c.sources.Insert(source)
	c.mu.Unlock()
	return c.mux.channel(source)
}

// Updates returns the channel of updates. It is closed when Run ends.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// Sources returns the names of all sources, in order.
func (c *PodConfig) Sources() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sets.List(c.sources)
}

// SeenAllSources tells whether every source has sent a set and is among
// seenSources, those whose first update the caller has taken.
//
// kubelet: pkg/kubelet/config/config.go SeenAllSources.
func (c *PodConfig) SeenAllSources(seenSources sets.Set[string]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seenSources.IsSuperset(c.sources) && c.seen.IsSuperset(c.sources)
}

// Run merges what the sources send until the context is done, and returns its
// cause. It may be called once.
func (c *PodConfig) Run(ctx context.Context) error {
	defer close(c.updates)
	var listeners sync.WaitGroup
	listeners.Go(func() { c.mux.run(ctx) })
	defer listeners.Wait()

	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case in := <-c.mux.merged:
			if err := c.merge(ctx, in); err != nil {
				return err
			}
		}
	}
}

// merge sends what the set changes, all of it or until the context is done.
func (c *PodConfig) merge(ctx context.Context, in sourcedSet) error {
	logger := klog.FromContext(ctx)
	before := c.storage.count(in.source)
	result := c.storage.merge(in.source, in.set.Pods)
	left := c.storage.count(in.source)
	// An unmounted directory shows an empty one below it, and an emptied list may be a
	// mistake: that pods go away is right then, but not without a word.
	switch removed := before - left; {
	case removed > 0 && left == 0:
		logger.Info("Source removed all of its pods", "source", in.source, "origin", in.set.Origin, "removed", removed)
	case removed > left:
		logger.Info("Source removed most of its pods", "source", in.source, "origin", in.set.Origin, "removed", removed, "left", left)
	}
	for _, d := range result.duplicates {
		logger.Info("Pod has the name of another one in the same set, ignoring it",
			"pod", klog.KObj(d), "podUID", d.UID, "source", in.source)
	}
	c.mu.Lock()
	c.seen.Insert(in.source)
	c.mu.Unlock()

	for _, u := range result.podUpdates(in.source) {
		select {
		case c.updates <- u:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
