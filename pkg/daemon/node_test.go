package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The node of the apiserver replaces what the daemon knows, for as long as there is one.
func TestTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var address, version atomic.Value
		var last atomic.Pointer[v1.Node]
		address.Store("192.0.2.1")
		version.Store("")
		n := &node{
			name: "node1", addresses: func() []string { return []string{address.Load().(string)} }, put: last.Store,
			version: func(context.Context) (string, error) {
				if v := version.Load().(string); v != "" {
					return v, nil
				}
				return "", errors.New("no answer")
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.run(ctx) }()
		expect := func(address, runtime string) {
			t.Helper()
			<-time.After(nodePeriod)
			synctest.Wait()
			got := last.Load()
			if a := got.Status.Addresses[0]; a.Type != v1.NodeInternalIP || a.Address != address || got.Status.NodeInfo.ContainerRuntimeVersion != runtime {
				t.Errorf("got %+v, want %s, %q", got.Status, address, runtime)
			}
		}
		expect("192.0.2.1", "")
		if got := last.Load(); got.Labels[v1.LabelHostname] != "node1" || got.Labels[v1.LabelOSStable] == "" || got.Labels[v1.LabelArchStable] == "" || len(got.Status.Conditions) != 0 {
			t.Errorf("got %+v", got)
		}
		address.Store("192.0.2.2")
		version.Store("containerd://2.4.0")
		expect("192.0.2.2", "containerd://2.4.0")
		version.Store("")
		expect("192.0.2.2", "containerd://2.4.0") // the last known one

		remote := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node1"},
			Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}},
		}
		n.setRemote(remote)
		expect("10.0.0.1", "")
		n.setRemote(nil)
		expect("192.0.2.2", "containerd://2.4.0")
		cancel()
		<-ended
	})
}

// Host IPs are those of the flag, else those that the apiserver has of the node, else the name of the node if it
// is an address.
func TestHostIPs(t *testing.T) {
	address := func(kind v1.NodeAddressType, ip string) v1.NodeAddress {
		return v1.NodeAddress{Type: kind, Address: ip}
	}
	for _, test := range []struct {
		name, flag, node string
		addresses        []v1.NodeAddress
		want             string
	}{
		{"the flag first", "192.0.2.1", "198.51.100.1", []v1.NodeAddress{address(v1.NodeInternalIP, "203.0.113.1")}, "[192.0.2.1]"},
		{"the apiserver", "", "198.51.100.1", []v1.NodeAddress{address(v1.NodeExternalIP, "203.0.113.2"), address(v1.NodeHostName, "x"), address(v1.NodeInternalIP, "203.0.113.1")}, "[203.0.113.1]"},
		{"both families", "::", "n", []v1.NodeAddress{address(v1.NodeInternalIP, "fd00::1"), address(v1.NodeInternalIP, "fd00::2"), address(v1.NodeExternalIP, "203.0.113.1")}, "[fd00::1 203.0.113.1]"},
		{"only an external one", "", "n", []v1.NodeAddress{address(v1.NodeExternalIP, "203.0.113.2")}, "[203.0.113.2]"},
		{"the name", "", "198.51.100.1", nil, "[198.51.100.1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &node{configured: isAddress(test.flag), addresses: nodeIPs(test.flag, types.NodeName(test.node)), put: func(*v1.Node) {}}
			n.setRemote(&v1.Node{Status: v1.NodeStatus{Addresses: test.addresses}})
			if got := fmt.Sprint(n.hostIPs()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The addresses of the machine are not read again for each caller. An address that is missing is.
func TestSometimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads []time.Duration
		began := time.Now()
		addresses := sometimes(10*time.Second, func() []string {
			reads = append(reads, time.Since(began))
			if len(reads) < 3 {
				return nil
			}
			return []string{fmt.Sprint(len(reads))}
		})
		var got []string
		for range 10 {
			got = append(got, fmt.Sprint(addresses()))
			<-time.After(2 * time.Second)
		}
		if want := "[[] [] [3] [3] [3] [3] [3] [4] [4] [4]]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s, read at %v", got, want, reads)
		}
	})
}
