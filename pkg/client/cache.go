package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// CacheOptions configures a Cache.
type CacheOptions struct {
	// Options selects the pods. Mode, Ops, Instance, Since and Once must be empty.
	Options
	// Indexers has a function for each index, in addition to the indexes of ByUID, ByIP and ByContainerID.
	// It returns the index values of a pod.
	Indexers map[string]func(*v1.Pod) []string
	// OnChange, if set, is called for each pod that is added (before is nil), removed (after
	// is nil) or changed in spec, status, labels, annotations or deletion. It is not called
	// for a pod that is sent again unchanged, for example after a restart of the daemon. Run
	// calls it, one call at a time, after the cache has the change.
	OnChange func(before, after *v1.Pod)
}

// Cache holds the current pods. The pods are shared: do not write to them. The cache can be
// read at any time. Without a connection, it has the last known pods.
type Cache struct {
	client   *Client
	opts     CacheOptions
	indexers map[string]func(*v1.Pod) []string
	synced   chan struct{}

	mu      sync.RWMutex
	pods    map[cacheKey]*v1.Pod
	indexes map[string]map[string]map[cacheKey]*v1.Pod
}

// cacheKey identifies a pod. Two sources may have a pod with the same UID.
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
	cache.indexers = maps.Clone(standardIndexers)
	maps.Copy(cache.indexers, opts.Indexers)
	cache.indexes = make(map[string]map[string]map[cacheKey]*v1.Pod, len(cache.indexers))
	for name := range cache.indexers {
		cache.indexes[name] = make(map[string]map[cacheKey]*v1.Pod)
	}
	return cache
}

// Run keeps the cache up to date until the context is done, and returns the cause of the
// context. It returns an error if the daemon refuses the request. Call it once.
func (c *Cache) Run(ctx context.Context) error {
	// next collects the current pods after a reset. The cache keeps the old pods until next
	// is complete.
	var next map[cacheKey]*v1.Pod
	synced := false
	for u, err := range c.client.Updates(ctx, c.opts.Options) {
		if err != nil {
			return err
		}
		switch {
		case u.Reset:
			next = make(map[cacheKey]*v1.Pod)
		case u.Op != v1alpha1.OpBookmark && next != nil:
			for _, pod := range u.Pods {
				next[cacheKey{u.Source, pod.UID}] = pod
			}
		case u.Op != v1alpha1.OpBookmark:
			c.apply(u)
		}
		if u.InitialSyncComplete && next != nil {
			c.replace(next)
			next = nil
		}
		if !synced && next == nil && u.Ready != nil && known(u.Sources) {
			synced = true
			close(c.synced)
		}
	}
	return context.Cause(ctx)
}

// known reports whether the daemon knows the pods of every source.
func known(sources map[string]v1alpha1.SourceState) bool {
	for _, s := range sources {
		if !s.Seen && !s.Restored {
			return false
		}
	}
	return true
}

// Synced returns a channel that is closed when the daemon knows the pods of every source, and
// they are in the cache. Pods from before a restart of the daemon count until their source
// delivers a set.
func (c *Cache) Synced() <-chan struct{} { return c.synced }

// apply applies an update.
func (c *Cache) apply(u *v1alpha1.Update) {
	for _, pod := range u.Pods {
		if u.Op == v1alpha1.OpRemove {
			c.set(cacheKey{u.Source, pod.UID}, nil)
		} else {
			c.set(cacheKey{u.Source, pod.UID}, pod)
		}
	}
}

// replace replaces the pods of the cache. It first removes the pods that are not in pods.
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

// set adds or replaces a pod, or removes it if after is nil.
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

// index applies change to the entry of each index value of the pod.
func (c *Cache) index(pod *v1.Pod, change func(found map[cacheKey]*v1.Pod)) {
	for name, indexer := range c.indexers {
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

// List returns all pods, ordered by namespace and name. Of pods with the same name, the one that Get
// returns comes first, then others by source and UID, then mirror pods.
func (c *Cache) List() []*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.pods)
}

// ByIndex returns the pods with that index value, in the order of List. It returns none for
// an unknown index.
func (c *Cache) ByIndex(index, value string) []*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.indexes[index][value])
}

// Get returns the pod with that name. If several sources have one, it returns the first by the name of the
// source, and a mirror pod only if there is no other.
func (c *Cache) Get(namespace, name string) (*v1.Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return first(c.indexes[nameIndex][namespace+"/"+name])
}

func sorted(pods map[cacheKey]*v1.Pod) []*v1.Pod {
	list := make([]*v1.Pod, 0, len(pods))
	for _, key := range slices.SortedFunc(maps.Keys(pods), func(a, b cacheKey) int {
		x, y := pods[a], pods[b]
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), compareCopies(pods, a, b))
	}) {
		list = append(list, pods[key])
	}
	return list
}

// seenAnnotation is when the daemon first saw the pod. A restart of the daemon changes it.
const seenAnnotation = "kubernetes.io/config.seen"

// same reports whether two versions of a pod have no difference for which the daemon sends an
// UPDATE, DELETE or RECONCILE. Either may be nil.
func same(a, b *v1.Pod) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return equality.Semantic.DeepEqual(&a.Spec, &b.Spec) &&
		equality.Semantic.DeepEqual(&a.Status, &b.Status) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
}

func foreignAnnotations(pod *v1.Pod) map[string]string {
	foreign := maps.Clone(pod.Annotations)
	delete(foreign, seenAnnotation)
	return foreign
}
