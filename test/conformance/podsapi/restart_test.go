package podsapi

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
)

// TestRestartWithTheFeatureGate restarts a kubelet 1.36 whose Pods API is switched on. It answers before its sources are ready.
// The last status of each pod stands meanwhile.
func TestRestartWithTheFeatureGate(t *testing.T) {
	for _, name := range []string{"alone", "with an apiserver"} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.minor = "1.36"
			if name != "alone" {
				n.cluster = components.Start(t)
				n.pods["plain"], n.pods["noconfig"] = "plain", "noconfig"
			}
			for _, name := range []string{"probed", "unready", "noconfig"} {
				n.pods[name+"-node1"] = name
			}
			n.startKubelet(t)
			n.startPodconfigd(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			t.Cleanup(func() { cancel(); running.Wait() })
			running.Go(func() { n.subscribe(ctx) })
			for pod, name := range n.pods {
				n.put(t, pod, name)
			}
			n.settle(t, false)

			killed := time.Now()
			n.kubelet.Kill(t)
			n.stands(t)
			if api, err := n.podsAPI(t); err != nil || api.Statuses != len(n.pods) {
				t.Errorf("while the kubelet is away: %+v, %v", api, err)
			}
			n.nothingBetween(t, killed)
			n.kubelet.Start(t)
			n.connected(t, true)
			n.settle(t, false)
			n.kubeletsOnly(t, killed)
			cancel()
			running.Wait()
			n.client.CloseIdleConnections()
		})
	}
}

// kubeletsOnly checks that since a time, a subscriber saw no status by podconfigd's own rules. After its start, the kubelet itself
// can give a pod that is not ready until it has the result of a probe again.
func (n *node) kubeletsOnly(t *testing.T, since time.Time) {
	t.Helper()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	for pod, moments := range n.ours.pods {
		for _, m := range moments {
			if text := asJSON(m.status); m.at.After(since) && strings.Contains(text, "containers whose probe results are not known here") {
				t.Errorf("%s: %v after the kill, a subscriber saw %s", pod, m.at.Sub(since), text)
			}
		}
	}
}
