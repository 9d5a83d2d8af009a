package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// CacheOptions say what a Cache holds.
type CacheOptions struct {
	// Options select the pods. Mode, Ops and Once must be left as they are.
	Options
	// Indexers give, by the name of an index, the values under which a pod is found.
	Indexers map[string]func(*v1.Pod) []string
	// OnChange, if set, is called for each pod that came (before is nil), went (after is
	// nil) or changed in spec, status, labels, annotations or deletion. A pod that is told
	// again as it was, as after a restart of the daemon, did not change. The calls are made
	// from Run, one after the other, when the cache has the change.
	OnChange func(before, after *v1.Pod)
}

// Cache holds the present pods, for those who only want these. Its pods are shared and
// must not be written to. It can be read at any time; while the connection is down it
// has what was last known.
type Cache struct {
	client *Client
	opts   CacheOptions
	synced chan struct{}

	mu      sync.RWMutex
	pods    map[cacheKey]*v1.Pod
	indexes map[string]map[string]map[cacheKey]*v1.Pod
}

// cacheKey tells one pod from another: two sources may have one of the same UID.
type cacheKey struct {
	source string
	uid    types.UID
}

func compareKeys(a, b cacheKey) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.uid, b.uid))
}

// NewCache returns an empty cache. Run fills it.
func NewCache(c *Client, opts CacheOptions) *Cache {
	cache := &Cache{client: c, opts: opts, synced: make(chan struct{}), pods: make(map[cacheKey]*v1.Pod)}
	cache.indexes = make(map[string]map[string]map[cacheKey]*v1.Pod, len(opts.Indexers))
	for name := range opts.Indexers {
		cache.indexes[name] = make(map[string]map[cacheKey]*v1.Pod)
	}
	return cache
}

// Run keeps the cache up to date until the context is done, and returns the context's
// cause; or an error if the daemon refuses the request. It is called once.
func (c *Cache) Run(ctx context.Context) error {
	// next is the present state that is being told after a reset; what is known stays
	// until it is whole.
	var next map[cacheKey]*v1.Pod
	ready := false
	for u, err := range c.client.Updates(ctx, c.opts.Options) {
		if err != nil {
			return err
		}
		switch {
		case u.Reset:
			next = make(map[cacheKey]*v1.Pod)
		case u.Op != "BOOKMARK" && next != nil:
			for _, pod := range u.Pods {
				next[cacheKey{u.Source, pod.UID}] = pod
			}
		case u.Op != "BOOKMARK":
			c.take(u)
		}
		if u.InitialSyncComplete && next != nil {
			c.replace(next)
			next = nil
		}
		if !ready && next == nil && u.Ready != nil && *u.Ready {
			ready = true
			close(c.synced)
		}
	}
	return context.Cause(ctx)
}

// Synced is closed once every source of the daemon has been seen and its pods are in
// the cache.
func (c *Cache) Synced() <-chan struct{} { return c.synced }

// take takes over an update.
func (c *Cache) take(u *v1alpha1.Update) {
	for _, pod := range u.Pods {
		if u.Op == "REMOVE" {
			c.set(cacheKey{u.Source, pod.UID}, nil)
		} else {
			c.set(cacheKey{u.Source, pod.UID}, pod)
		}
	}
}

// replace makes these the pods of the cache: first those go that are not among them.
func (c *Cache) replace(pods map[cacheKey]*v1.Pod) {
	c.mu.RLock()
	gone := maps.Clone(c.pods)
	c.mu.RUnlock()
	maps.DeleteFunc(gone, func(key cacheKey, _ *v1.Pod) bool { return pods[key] != nil })
	for _, key := range slices.SortedFunc(maps.Keys(gone), compareKeys) {
		c.set(key, nil)
	}
	for _, key := range slices.SortedFunc(maps.Keys(pods), compareKeys) {
		c.set(key, pods[key])
	}
}

// set puts a pod in, or takes it out for nil.
func (c *Cache) set(key cacheKey, after *v1.Pod) {
	c.mu.Lock()
	before := c.pods[key]
	if before != nil {
		delete(c.pods, key)
		c.index(before, func(found map[cacheKey]*v1.Pod) { delete(found, key) })
	}
	if after != nil {
		c.pods[key] = after
		c.index(after, func(found map[cacheKey]*v1.Pod) { found[key] = after })
	}
	c.mu.Unlock()
	if c.opts.OnChange != nil && !same(before, after) {
		c.opts.OnChange(before, after)
	}
}

// index changes what is found under each of the pod's values.
func (c *Cache) index(pod *v1.Pod, change func(found map[cacheKey]*v1.Pod)) {
	for name, indexer := range c.opts.Indexers {
		for _, value := range indexer(pod) {
			found := c.indexes[name][value]
			if found == nil {
				found = make(map[cacheKey]*v1.Pod)
				c.indexes[name][value] = found
			}
			if change(found); len(found) == 0 {
				delete(c.indexes[name], value)
			}
		}
	}
}

// List returns all pods by namespace, name and UID.
func (c *Cache) List() []*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.pods)
}

// ByIndex returns the pods that an index has under a value, in List's order. An index
// that the cache was not made with has none.
func (c *Cache) ByIndex(index, value string) []*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.indexes[index][value])
}

// Get returns the pod of that name; where a static pod and its mirror pod have it, the
// static one.
func (c *Cache) Get(namespace, name string) (*v1.Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found *v1.Pod
	for _, pod := range c.pods {
		if pod.Namespace != namespace || pod.Name != name {
			continue
		}
		if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; found == nil || !mirror {
			found = pod
		}
	}
	return found, found != nil
}

func sorted(pods map[cacheKey]*v1.Pod) []*v1.Pod {
	list := make([]*v1.Pod, 0, len(pods))
	for _, pod := range pods {
		list = append(list, pod)
	}
	slices.SortFunc(list, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return list
}
