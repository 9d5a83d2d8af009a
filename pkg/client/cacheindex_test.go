package client_test

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// statusPod returns a pod that runs a container on a network.
func statusPod(name, uid, containerID string, ips ...string) *v1.Pod {
	p := podtest.Pod(name, podtest.UID(uid), podtest.IPs(ips...))
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "other"}, {Name: "app", ContainerID: containerID}}
	return p
}

// A cache finds pods by UID, IP and container ID, and forgets the old values of a pod.
func TestCacheIndexes(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	j := journal.New(journal.Options{Sources: []string{"api", "file"}})
	t.Cleanup(serve(t, j, socket))
	deliver := func(op config.PodOperation, source string, pods ...*v1.Pod) {
		j.Append(config.PodUpdate{Op: op, Source: source, Pods: pods})
	}
	mirror := statusPod("web", "u1", "containerd://c1", "10.0.0.1")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	deliver(config.ADD, "api", mirror)
	web := statusPod("web", "u1", "containerd://c1", "10.0.0.1", "fd00::1")
	web.Labels = map[string]string{"static": "yes"}
	deliver(config.ADD, "file", web, statusPod("host", "u2", "cri-o://c2", "10.0.0.1"))
	cache, _ := runCache(t, socket)
	<-cache.Synced()

	if p, ok := cache.ByUID("u1"); !ok || p.Labels["static"] != "yes" {
		t.Errorf("by UID: %v, %t", p, ok)
	}
	if _, ok := cache.ByUID("u3"); ok {
		t.Error("an unknown UID is found")
	}
	for id, want := range map[string]string{"c1": "web", "containerd://c1": "web", "c2": "host", "x://c2": "host"} {
		t.Run(id, func(t *testing.T) {
			if p, name, ok := cache.ByContainerID(id); !ok || p.Name != want || name != "app" {
				t.Errorf("by container ID %s: %v, %s, %t", id, p, name, ok)
			}
		})
	}
	for ip, want := range map[string]string{
		"10.0.0.1": "host web web", "::ffff:10.0.0.1": "host web web", "FD00:0::0001": "web", "10.0.0.2": "", "x": "",
	} {
		t.Run(ip, func(t *testing.T) {
			if got := names(cache.ByIP(ip)); got != want {
				t.Errorf("by IP %s: got %q, want %q", ip, got, want)
			}
		})
	}

	restarted := statusPod("host", "u2", "cri-o://c3", "10.0.0.2")
	restarted.Status.ContainerStatuses[1].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ContainerID: "cri-o://c2"}
	deliver(config.RECONCILE, "file", restarted)
	awaitNames(t, func() []*v1.Pod { return cache.ByIP("10.0.0.2") }, "host")
	for id, want := range map[string]bool{"c3": true, "c2": true, "c9": false, "": false} {
		t.Run(id+" after a restart", func(t *testing.T) {
			if _, _, ok := cache.ByContainerID(id); ok != want {
				t.Errorf("by container ID %s: %t", id, ok)
			}
		})
	}
	if got := names(cache.ByIP("10.0.0.1")); got != "web web" {
		t.Errorf("by the IP before: %q", got)
	}
	deliver(config.REMOVE, "file", restarted)
	awaitNames(t, func() []*v1.Pod { return cache.ByIP("10.0.0.2") }, "")
	if _, _, ok := cache.ByContainerID("c3"); ok {
		t.Error("a removed pod is found")
	}
}
