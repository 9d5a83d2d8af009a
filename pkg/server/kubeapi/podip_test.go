package kubeapi

import (
	"cmp"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A list and a watch can select pods by IP. A pod that gets the IP with a new status is ADDED,
// and one that has another IP now is DELETED.
func TestSelectionByPodIP(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	status := func(op config.PodOperation, ip string) {
		pod := podOf("file", "a", "x", "1")
		pod.Status.PodIP = ip
		if ip != "" {
			pod.Status.PodIPs = []v1.PodIP{{IP: ip}}
		}
		a.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{pod}})
	}
	status(config.ADD, "")
	with, without := a.watch(t, "fieldSelector=status.podIP%3D10.0.0.1"), a.watch(t, "fieldSelector=status.podIP%3D")
	without.expect(t, "ADDED a/x=1@1")
	status(config.RECONCILE, "10.0.0.1")
	with.expect(t, "ADDED a/x=1@2")
	without.expect(t, "DELETED a/x=1@2")
	for selector, want := range map[string]string{"10.0.0.1": "a/x=1@2", "10.0.0.2": "", "": ""} {
		t.Run(cmp.Or(selector, "empty"), func(t *testing.T) {
			if got, _ := a.list(t, "/api/v1/pods?fieldSelector=status.podIP%3D"+selector); got != want {
				t.Errorf("%q: got %q, want %q", selector, got, want)
			}
		})
	}
	status(config.RECONCILE, "10.0.0.2")
	with.expect(t, "DELETED a/x=1@3")
}
