package client

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The indexes that every cache has. Names of Indexers can't begin with a slash.
const (
	nameIndex        = "/name"
	uidIndex         = "/uid"
	ipIndex          = "/ip"
	containerIDIndex = "/containerID"
)

// standardIndexers are the functions of these indexes.
var standardIndexers = map[string]func(*v1.Pod) []string{
	nameIndex:        func(pod *v1.Pod) []string { return []string{pod.Namespace + "/" + pod.Name} },
	uidIndex:         func(pod *v1.Pod) []string { return []string{string(pod.UID)} },
	ipIndex:          podIPs,
	containerIDIndex: containerIDs,
}

// ByUID returns the pod with that UID. If several sources have one, it returns the first by
// the name of the source, and a mirror pod only if there is no other.
func (c *Cache) ByUID(uid types.UID) (*v1.Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return first(c.indexes[uidIndex][string(uid)])
}

// ByIP returns the pods with that IP, in any spelling, in the order of List. All pods on the
// network of the host have its IP. A pod that completed keeps its IP in its status.
func (c *Cache) ByIP(ip string) []*v1.Pod { return c.ByIndex(ipIndex, canonicalIP(ip)) }

// ByContainerID returns the pod whose status has a container with that ID, and the name of the
// container. The ID can begin with the name of the runtime, as in the status. The cache learns
// of a container later than [Client.Lookup], and has no sandboxes.
func (c *Cache) ByContainerID(id string) (pod *v1.Pod, container string, found bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id = bareID(id)
	if pod, found = first(c.indexes[containerIDIndex][id]); !found {
		return nil, "", false
	}
	eachContainer(pod, func(name, other string) {
		if other == id {
			container = name
		}
	})
	return pod, container, true
}

// first returns the first pod in the order of compareCopies.
func first(pods map[cacheKey]*v1.Pod) (*v1.Pod, bool) {
	if len(pods) == 0 {
		return nil, false
	}
	keys := slices.Collect(maps.Keys(pods))
	return pods[slices.MinFunc(keys, func(a, b cacheKey) int { return compareCopies(pods, a, b) })], true
}

// compareCopies orders pods with the same name or UID: by source and UID, mirror pods last.
func compareCopies(pods map[cacheKey]*v1.Pod, a, b cacheKey) int {
	rank := func(key cacheKey) int {
		if _, mirror := pods[key].Annotations[v1.MirrorPodAnnotationKey]; mirror {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), compareKeys(a, b))
}

func podIPs(pod *v1.Pod) []string {
	var ips []string
	add := func(ip string) {
		if ip != "" && !slices.Contains(ips, canonicalIP(ip)) {
			ips = append(ips, canonicalIP(ip))
		}
	}
	add(pod.Status.PodIP)
	for _, ip := range pod.Status.PodIPs {
		add(ip.IP)
	}
	return ips
}

// canonicalIP returns an IP in the usual spelling.
func canonicalIP(s string) string {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return s
	}
	return ip.Unmap().String()
}

func containerIDs(pod *v1.Pod) []string {
	var ids []string
	eachContainer(pod, func(_, id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	})
	return ids
}

// eachContainer calls do with the name and the ID of each container in the status, and of the
// container before it.
func eachContainer(pod *v1.Pod, do func(name, id string)) {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.ContainerID != "" {
				do(s.Name, bareID(s.ContainerID))
			}
			if last := s.LastTerminationState.Terminated; last != nil && last.ContainerID != "" {
				do(s.Name, bareID(last.ContainerID))
			}
		}
	}
}

// bareID returns the ID of a container without the name of the runtime.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}
