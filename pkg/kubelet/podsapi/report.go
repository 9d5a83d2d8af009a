package podsapi

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/config"
)

const (
	// maxUnknown is the maximum number of pods that a status lists.
	maxUnknown = 100
	// maxText is the maximum length of a text of the kubelet in logs and in the status, in bytes.
	maxText = 1000
)

// Report returns the status of the connection; nil if none is configured and there was none yet.
func (c *Client) Report() *v1alpha1.KubeletPodsAPI {
	c.mu.Lock()
	r := &v1alpha1.KubeletPodsAPI{Socket: c.path, Connected: c.connected, LastError: c.lastError}
	since, expected := c.since, c.expected()
	c.mu.Unlock()
	if !expected {
		return nil
	}
	if !since.IsZero() {
		r.Since = new(since)
	}
	r.Pods, r.Statuses = c.statuses.count()
	toKubelet, toSources := c.unknown()
	r.UnknownToKubelet, r.UnknownToSources = texts(toKubelet), texts(toSources)
	return r
}

// expected reports whether there must be a kubelet. The caller has locked the mutex.
func (c *Client) expected() bool { return !c.off && (c.known || !c.auto) }

// unknown returns the pods of the sources that are missing in the kubelet, and the pods of the kubelet that no source
// has. While the kubelet is away, it returns none.
func (c *Client) unknown() (toKubelet, toSources []types.NamespacedName) {
	c.mu.Lock()
	connected := c.connected
	c.mu.Unlock()
	if !connected {
		return nil, nil
	}
	ours := c.ours()
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	for uid, pod := range ours {
		if e := c.statuses.pods[uid]; (e == nil || e.unlisted) && !pod.OfOtherSource {
			toKubelet = append(toKubelet, pod.NamespacedName)
		}
	}
	for uid, e := range c.statuses.pods {
		if _, has := ours[uid]; !has && (e.source != config.ApiserverSource || c.apiserver) {
			toSources = append(toSources, e.name)
		}
	}
	return toKubelet, toSources
}

// count returns the number of pods, and of those with a status.
func (s *statuses) count() (pods, known int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.pods {
		if e.status != nil {
			known++
		}
	}
	return len(s.pods), known
}

// texts returns the first names, in order.
func texts(names []types.NamespacedName) (first []string) {
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names[:min(len(names), maxUnknown)] {
		first = append(first, printable.Cut(name.String(), maxText))
	}
	return first
}

// Statics returns the UIDs of the kubelet's static pods by name; nil without a connection.
func (c *Client) Statics() map[types.NamespacedName]types.UID {
	c.mu.Lock()
	connected := c.connected
	c.mu.Unlock()
	if !connected {
		return nil
	}
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	uids := make(map[types.NamespacedName]types.UID)
	newest := make(map[types.NamespacedName]*entry)
	for uid, e := range c.statuses.pods {
		static := e.source == config.FileSource || e.source == config.HTTPSource
		if static && !e.unlisted && isNewer(e, newest[e.name], uid > uids[e.name]) {
			uids[e.name], newest[e.name] = uid, e
		}
	}
	return uids
}

// isNewer reports whether a pod is newer than another one, which may be nil, of the same name: the kubelet ends the other one. Of two
// pods that came in one list, that is the one that the kubelet saw later.
func isNewer(e, than *entry, otherwise bool) bool {
	switch {
	case than == nil || e.first != than.first:
		return than == nil || e.first > than.first
	case !e.seen.Equal(than.seen):
		return e.seen.After(than.seen)
	}
	return otherwise
}
