package podsapi

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// maxUnknown is the maximum number of pods that a status lists.
const maxUnknown = 100

// Report returns the status of the connection; nil if none is configured and there was none yet. ours has the names of the
// pods of the sources that a kubelet should have, by UID.
func (c *Client) Report(ours map[types.UID]types.NamespacedName) *v1alpha1.KubeletPodsAPI {
	c.mu.Lock()
	r := &v1alpha1.KubeletPodsAPI{Socket: c.path, Connected: c.connected, LastError: c.lastError}
	since, expected := c.since, c.known || !c.auto
	c.mu.Unlock()
	if !expected {
		return nil
	}
	theirs := c.names()
	if !since.IsZero() {
		r.Since = new(since)
	}
	r.Pods = len(theirs)
	for uid := range theirs {
		if status, _ := c.Status(uid); status != nil {
			r.Statuses++
		}
	}
	if r.Connected {
		r.UnknownToKubelet, r.UnknownToSources = missing(ours, theirs), missing(theirs, ours)
	}
	return r
}

// names returns the names of the kubelet's pods.
func (c *Client) names() map[types.UID]types.NamespacedName {
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	names := make(map[types.UID]types.NamespacedName, len(c.statuses.pods))
	for uid, e := range c.statuses.pods {
		names[uid] = e.name
	}
	return names
}

// missing returns the names of the first pods in one that are not in other.
func missing(one, other map[types.UID]types.NamespacedName) (names []string) {
	var found []types.NamespacedName
	for uid, name := range one {
		if _, has := other[uid]; !has {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range found[:min(len(found), maxUnknown)] {
		names = append(names, name.String())
	}
	return names
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
	for uid, e := range c.statuses.pods {
		if e.source == config.FileSource || e.source == config.HTTPSource {
			uids[e.name] = uid
		}
	}
	return uids
}
