package podsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestLive runs podconfigd beside a kubelet 1.37 without an apiserver. Every field of the status is the kubelet's by its event,
// also after each of them was killed.
func TestLive(t *testing.T) {
	n := newNode(t)
	for name := range manifests {
		if name != "evicted" {
			n.pods[name+"-node1"] = name
		}
	}
	n.live(t)
}

// TestLiveWithAnAPIServer is TestLive with pods of an apiserver, which the kubelet and podconfigd have joined.
func TestLiveWithAnAPIServer(t *testing.T) {
	n := newNode(t)
	n.cluster = components.Start(t)
	for _, name := range staticPods {
		n.pods[name+"-node1"] = name
	}
	for _, name := range apiPods {
		n.pods[name] = name
	}
	n.live(t)
}

func (n *node) live(t *testing.T) {
	t.Helper()
	n.flags = []string{"--kubelet-pods-api-check-frequency=24h"} // so that events have to do
	n.startPodconfigd(t)
	n.startKubelet(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { n.watch(ctx) })
	running.Go(func() { n.subscribe(ctx) })
	for pod, name := range n.pods {
		n.put(t, pod, name)
	}
	n.settle(t, true)
	n.logDelays(t, time.Time{})

	t.Log("podconfigd is killed")
	killed := time.Now()
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.startPodconfigd(t)
	baseline := n.start(t, "baseline", podsapi.None)
	running.Go(func() { drain(ctx, filepath.Join(n.dir, "baseline")) })
	n.connected(t, true)
	back := time.Now()
	n.settle(t, false)
	n.logDelays(t, back)

	t.Log("the kubelet is killed")
	n.kubelet.Kill(t)
	n.stands(t)
	n.nothingBetween(t, killed)
	back = time.Now()
	n.kubelet.Start(t)
	n.settle(t, false)
	n.logDelays(t, back)
	n.logCost(t, baseline)
	cancel()
	running.Wait()
	n.client.CloseIdleConnections()
}

// both returns the pods of the kubelet and of podconfigd, by name.
func (n *node) both(t *testing.T) (theirs, ours map[string]*v1.Pod, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // short: it is tried again
	defer cancel()
	conn, err := n.dial()
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	list, err := n.client.Pods(ctx)
	if err != nil {
		return nil, nil, err
	}
	answer, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		return nil, nil, err
	}
	theirs, ours = make(map[string]*v1.Pod), make(map[string]*v1.Pod)
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Annotations[v1.MirrorPodAnnotationKey] == "" {
			ours[pod.Name] = pod
		}
	}
	for _, data := range answer.GetPods() {
		pod := new(v1.Pod)
		if err := pod.Unmarshal(data); err != nil {
			return nil, nil, err
		}
		theirs[pod.Name] = pod
	}
	return theirs, ours, nil
}

// settle waits until each pod has come to what is wanted, and both have the same status of it.
func (n *node) settle(t *testing.T, log bool) {
	t.Helper()
	began := time.Now()
	for pod, name := range n.pods {
		last, want := error(nil), manifests[name].want
		testutil.Eventually(t, func() (err error) {
			defer func() {
				if err != nil {
					last = err
				}
			}()
			theirs, ours, err := n.both(t)
			if err != nil {
				return err
			}
			a, b := theirs[pod], ours[pod]
			switch {
			case a == nil || b == nil || a.UID != b.UID:
				return fmt.Errorf("%s: the kubelet has it: %t, podconfigd: %t", pod, a != nil, b != nil)
			case want != nil && !want(&a.Status):
				return fmt.Errorf("%s: not yet: %s", pod, asJSON(a.Status))
			case n.cluster == nil && b.Status.HostIP != "192.0.2.7":
				return fmt.Errorf("%s: the address of the node is %q", pod, b.Status.HostIP)
			case !equality.Semantic.DeepEqual(n.compared(&a.Status), n.compared(&b.Status)):
				return fmt.Errorf("%s: the kubelet's status (-) differs from podconfigd's (+):\n%s", pod, cmp.Diff(n.compared(&a.Status), n.compared(&b.Status)))
			}
			return nil
		})
		if log || last != nil {
			t.Logf("%s: the same after %v; before: %v", pod, time.Since(began).Round(time.Millisecond), last)
		}
	}
	t.Logf("all the same after %v", time.Since(began).Round(time.Millisecond))
}

// connected waits until podconfigd is connected to the kubelet, or is not.
func (n *node) connected(t *testing.T, want bool) {
	t.Helper()
	testutil.Eventually(t, func() error {
		api, err := n.podsAPI(t)
		if err == nil && api.Connected != want {
			err = fmt.Errorf("podconfigd is connected: %t", !want)
		}
		return err
	})
}

// podsAPI returns what podconfigd says about the Pods API of the kubelet.
func (n *node) podsAPI(t *testing.T) (*v1alpha1.KubeletPodsAPI, error) {
	t.Helper()
	status, err := n.client.Status(t.Context())
	if err != nil {
		return nil, err
	}
	if status.Kubelet.PodsAPI == nil {
		return nil, fmt.Errorf("there is no Pods API: %s", asJSON(status.Kubelet))
	}
	return status.Kubelet.PodsAPI, nil
}

// stands checks that while the kubelet is away, the last status of pods that go on stands.
func (n *node) stands(t *testing.T) {
	t.Helper()
	n.connected(t, false)
	<-time.After(3 * time.Second) // by then it counts as away
	list, err := n.client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if name := n.pods[pod.Name]; slices.Contains(steady, name) && !manifests[name].want(&pod.Status) {
			t.Errorf("%s: while the kubelet is away: %s", pod.Name, asJSON(pod.Status))
		}
	}
}

// nothingBetween checks that a subscriber saw no other status of the steady pods since a time.
func (n *node) nothingBetween(t *testing.T, since time.Time) {
	t.Helper()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	for pod, name := range n.pods {
		if !slices.Contains(steady, name) {
			continue
		}
		for _, m := range n.ours.pods[pod] {
			if m.at.After(since) && !manifests[name].want(m.status) {
				t.Errorf("%s: %v after the kill, a subscriber saw %s", pod, m.at.Sub(since), asJSON(m.status))
			}
		}
	}
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
