package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
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
		var version atomic.Value
		var last atomic.Pointer[v1.Node]
		a := newAddresses("192.0.2.1", "node1")
		address := func(ip string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.fixed, a.last = nil, []string{ip}
		}
		version.Store("")
		n := &node{
			name: "node1", addresses: a, put: last.Store,
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
		address("192.0.2.2")
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
			n := &node{configured: isAddress(test.flag), addresses: newAddresses(test.flag, types.NodeName(test.node)), put: func(*v1.Node) {}}
			n.setRemote(&v1.Node{Status: v1.NodeStatus{Addresses: test.addresses}})
			if got := fmt.Sprint(n.hostIPs()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The addresses are found as the kubelet finds them: the name is resolved before the routes count.
func TestAddresses(t *testing.T) {
	ips := func(texts string) (ips []net.IP) {
		for text := range strings.FieldsSeq(texts) {
			ips = append(ips, net.ParseIP(text))
		}
		return ips
	}
	const machine = "127.0.0.1 192.0.2.10 192.0.2.11 fd00::10 fe80::1"
	for name, test := range map[string]struct {
		configured, resolves, route, want string
		problem                           bool
	}{
		"the name":                     {"", "192.0.2.11", "192.0.2.10", "[192.0.2.11]", false},
		"IPv4 first":                   {"", "fd00::10 192.0.2.11", "", "[192.0.2.11]", false},
		"only IPv6":                    {"", "fd00::10", "192.0.2.10", "[fd00::10]", false},
		"IPv6 preferred":               {"::", "192.0.2.11 fd00::10", "", "[fd00::10]", false},
		"of another machine":           {"", "198.51.100.1", "192.0.2.10", "[192.0.2.10]", false},
		"loopback, as Debian has it":   {"", "127.0.1.1", "192.0.2.10", "[192.0.2.10]", false},
		"link-local":                   {"", "fe80::1", "192.0.2.10", "[192.0.2.10]", false},
		"no name":                      {"", "", "192.0.2.10", "[192.0.2.10]", false},
		"no route":                     {"", "192.0.2.10", "", "[192.0.2.10]", false},
		"neither":                      {"", "", "", "[]", true},
		"a route of loopback":          {"", "", "127.0.0.1", "[]", true},
		"configured":                   {"203.0.113.7", "192.0.2.10", "192.0.2.10", "[203.0.113.7]", false},
		"configured for both families": {"203.0.113.7,fd00::7", "", "", "[203.0.113.7 fd00::7]", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAddresses(test.configured, "node1")
				a.machine = func() []net.IP { return ips(machine) }
				a.lookup = func(context.Context, string, string) ([]net.IP, error) {
					if test.resolves == "" {
						return nil, &net.DNSError{IsNotFound: true}
					}
					return ips(test.resolves), nil
				}
				a.route = func(net.IP) (net.IP, error) {
					if test.route == "" {
						return nil, errors.New("no default routes")
					}
					return net.ParseIP(test.route), nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- a.run(ctx, func() {}) }()
				a.ask(ctx)
				if got := fmt.Sprint(a.current()); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				if got := a.problem(); (got != "") != test.problem || test.problem && !strings.Contains(got, "set --node-ip, for example to 192.0.2.10") {
					t.Errorf("the problem is %q", got)
				}
				cancel()
				<-ended
			})
		})
	}
}

// The addresses follow what changes: the network comes up after the start, the name resolves to another one, and the name server
// does not answer for a while.
func TestAddressesThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAddresses("", "node1")
		var mu sync.Mutex // guards what the network says
		var machine, found []net.IP
		failure := error(&net.DNSError{IsNotFound: true})
		network := func(addresses, ofName []net.IP, err error) {
			mu.Lock()
			defer mu.Unlock()
			machine, found, failure = addresses, ofName, err
		}
		a.machine = func() []net.IP {
			mu.Lock()
			defer mu.Unlock()
			return machine
		}
		a.lookup = func(context.Context, string, string) ([]net.IP, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(found), failure
		}
		a.route = func(net.IP) (net.IP, error) { return nil, errors.New("no default routes") }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.run(ctx, func() {}) }()
		expect := func(after time.Duration, want string) {
			t.Helper()
			<-time.After(after + time.Millisecond)
			if got := fmt.Sprint(a.current()); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect(time.Minute, "[]")
		if problem := a.problem(); problem != "" {
			t.Errorf("without a network, there is a problem: %s", problem)
		}
		one, two := net.ParseIP("192.0.2.1"), net.ParseIP("192.0.2.2")
		network([]net.IP{one, two}, []net.IP{one}, nil)
		expect(missingPeriod, "[192.0.2.1]")
		network([]net.IP{one, two}, nil, &net.DNSError{IsTimeout: true})
		expect(addressPeriod, "[192.0.2.1]")
		network([]net.IP{one, two}, []net.IP{two}, nil)
		expect(addressPeriod, "[192.0.2.2]")
		network([]net.IP{one}, nil, &net.DNSError{IsTemporary: true})
		expect(addressPeriod, "[]") // the machine does not have it any more
		cancel()
		<-ended
	})
}

// The node has a new address when it is found, not only when the rest of the node is read again.
func TestTheNodeHasANewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ip atomic.Pointer[net.IP]
		var last atomic.Pointer[v1.Node]
		a := newAddresses("", "node1")
		a.lookup = func(context.Context, string, string) ([]net.IP, error) { return nil, &net.DNSError{IsNotFound: true} }
		a.route = func(net.IP) (net.IP, error) {
			if found := ip.Load(); found != nil {
				return *found, nil
			}
			return nil, errors.New("no default routes")
		}
		n := &node{name: "node1", addresses: a, put: last.Store}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.run(ctx) }()
		go func() { ended <- a.run(ctx, n.moved) }()
		expect := func(after time.Duration, want string) {
			t.Helper()
			<-time.After(after + time.Millisecond)
			synctest.Wait()
			if got := fmt.Sprint(hostIPs(last.Load())); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		expect(2*missingPeriod, "[]")
		ip.Store(new(net.ParseIP("192.0.2.1")))
		expect(missingPeriod, "[192.0.2.1]")
		ip.Store(new(net.ParseIP("192.0.2.2")))
		expect(addressPeriod, "[192.0.2.2]")
		ip.Store(nil)
		expect(addressPeriod, "[]")
		cancel()
		<-ended
		<-ended
	})
}

// A name server that hangs holds up the statuses for a moment. Until it answers, the default route counts.
func TestAddressesWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAddresses("", "node1")
		if got, want := a.current(), a.byRoute(); !slices.Equal(got, want) {
			t.Errorf("before the start, got %v, want %v: the node would change at each start", got, want)
		}
		a.lookup = func(ctx context.Context, _, _ string) ([]net.IP, error) { <-ctx.Done(); return nil, ctx.Err() }
		a.route = func(net.IP) (net.IP, error) { return net.ParseIP("192.0.2.1"), nil }
		a.set(a.byRoute())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.run(ctx, func() {}) }()
		began := time.Now()
		if a.ask(ctx); time.Since(began) != addressTimeout {
			t.Errorf("it took %v", time.Since(began))
		}
		if got := fmt.Sprint(a.current()); got != "[192.0.2.1]" {
			t.Errorf("before the lookup has ended, got %s", got)
		}
		<-time.After(lookupTimeout)
		if got := fmt.Sprint(a.current()); got != "[192.0.2.1]" {
			t.Errorf("got %s", got)
		}
		cancel()
		<-ended
	})
}
