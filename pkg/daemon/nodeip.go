package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	netutils "k8s.io/utils/net"

	"github.com/podconfigd/podconfigd/internal/await"
)

// parseNodeIP parses the addresses of the node: none, one, or one of each IP family.
//
// kubelet: k8s.io/component-helpers/node/util ParseNodeIPArgument.
func parseNodeIP(s string) ([]net.IP, error) {
	if s == "" {
		return nil, nil
	}
	var ips []net.IP
	for text := range strings.SplitSeq(s, ",") {
		ip := netutils.ParseIPSloppy(strings.TrimSpace(text))
		if ip == nil {
			return nil, fmt.Errorf("%q is not an IP address", strings.TrimSpace(text))
		}
		if what := unusable(ip); what != "" {
			return nil, fmt.Errorf("%q is %s: expected an address of the node that pods can reach", ip, what)
		}
		ips = append(ips, ip)
	}
	switch {
	case len(ips) > 2, len(ips) == 2 && netutils.IsIPv6(ips[0]) == netutils.IsIPv6(ips[1]):
		return nil, fmt.Errorf("%q: expected one address, or an IPv4 and an IPv6 address", s)
	case len(ips) == 2 && slices.ContainsFunc(ips, net.IP.IsUnspecified):
		return nil, fmt.Errorf("%q: an unspecified address must be the only one", s)
	}
	return ips, nil
}

// unusable says why an address can't be that of a node, or returns "".
//
// kubelet: pkg/kubelet/kubelet_node_status.go validateNodeIP.
func unusable(ip net.IP) string {
	switch {
	case ip.IsLoopback():
		return "a loopback address"
	case ip.IsMulticast():
		return "a multicast address"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	}
	return ""
}

// isAddress reports whether the configuration has an address for the node.
func isAddress(configured string) bool {
	ips, _ := parseNodeIP(configured) // it is validated
	return len(ips) > 0 && !ips[0].IsUnspecified()
}

// hostIPs returns the addresses in the object of a node: the first internal one, or else the first external
// one, and the first one of the other IP family.
//
// kubelet: pkg/util/node/node.go GetNodeHostIPs.
func hostIPs(n *v1.Node) (ips []string) {
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			ip := netutils.ParseIPSloppy(a.Address)
			if a.Type == kind && ip != nil && (len(ips) == 0 || len(ips) == 1 && netutils.IsIPv6(ip) != netutils.IsIPv6String(ips[0])) {
				ips = append(ips, ip.String())
			}
		}
	}
	return ips
}

const (
	// addressPeriod is how long the addresses of the node are not read again, and missingPeriod the same while there are none.
	// The kubelet reads them in each node-status-update-frequency, 10 seconds by default.
	addressPeriod = 10 * time.Second
	missingPeriod = time.Second
	// lookupTimeout is the time in which the name of the node must be resolved. addressTimeout is the longest time that ask takes: a
	// name server that does not answer must not hold up the pods. Until it does, the default route counts.
	lookupTimeout  = 2 * time.Second
	addressTimeout = 500 * time.Millisecond
)

// addresses finds the addresses of the node: those in the configuration, or else the name of the node, if that is an address.
// Otherwise, it is the address to which the name resolves, if the machine has it, or else that of the interface with the
// default route. Both may change.
//
// kubelet: pkg/kubelet/nodestatus/setters.go NodeAddress.
type addresses struct {
	// fixed never change. If there are none, unspecified prefers the addresses of an IP family.
	fixed       []string
	name        types.NodeName
	unspecified net.IP
	lookup      func(context.Context, string, string) ([]net.IP, error)
	route       func(net.IP) (net.IP, error)
	// machine returns the addresses of the machine.
	machine func() []net.IP
	// first is closed when they were read once.
	first chan struct{}

	mu   sync.Mutex
	last []string
}

func newAddresses(configured string, name types.NodeName) *addresses {
	a := &addresses{
		name: name, unspecified: net.IPv4zero, lookup: net.DefaultResolver.LookupIP, route: utilnet.ResolveBindAddress, machine: machineIPs,
		first: make(chan struct{}),
	}
	ips, _ := parseNodeIP(configured) // it is validated
	switch ip := netutils.ParseIPSloppy(string(name)); {
	case isAddress(configured):
		for _, ip := range ips {
			a.fixed = append(a.fixed, ip.String())
		}
	case ip != nil:
		a.fixed = []string{ip.String()}
	case len(ips) > 0:
		a.unspecified = ips[0]
	}
	if len(a.fixed) > 0 {
		close(a.first)
	} else {
		a.last = a.byRoute() // it takes no time, and is mostly what the name will resolve to
	}
	return a
}

// current returns the addresses that were read last.
func (a *addresses) current() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Concat(a.fixed, a.last)
}

// now reads the addresses. It takes addressTimeout at most.
func (a *addresses) now(ctx context.Context) []string {
	if len(a.fixed) > 0 {
		return slices.Clone(a.fixed)
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	return a.read(ctx)
}

// problem says how to set an address if none is found although the machine has one; otherwise it is empty.
func (a *addresses) problem() string {
	select {
	case <-a.first:
	default:
		return ""
	}
	if len(a.current()) > 0 {
		return ""
	}
	for _, ip := range a.machine() {
		if unusable(ip) == "" {
			return fmt.Sprintf("no address of the node is found: its name does not resolve to one, and there is no default route; set --node-ip, for example to %v", ip)
		}
	}
	return ""
}

// ask waits until the addresses are read, for at most addressTimeout.
func (a *addresses) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-a.first:
	}
}

// run reads the addresses again and again, until the context is done. It calls changed when they are other ones than before.
func (a *addresses) run(ctx context.Context, changed func()) error {
	if len(a.fixed) > 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for begun := false; ; begun = true {
		found := a.read(ctx)
		if a.set(found) {
			changed()
		}
		if !begun {
			close(a.first)
		}
		period := addressPeriod
		if len(found) == 0 {
			period = missingPeriod
		}
		if err := await.For(ctx, period); err != nil {
			return err
		}
	}
}

func (a *addresses) read(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips, err := a.lookup(ctx, "ip", string(a.name))
	machine := a.machine()
	has := func(ip net.IP) bool { return slices.ContainsFunc(machine, ip.Equal) }
	usable := slices.DeleteFunc(ips, func(ip net.IP) bool { return unusable(ip) != "" || ip.IsUnspecified() || !has(ip) })
	if len(usable) > 0 {
		preferred := slices.IndexFunc(usable, func(ip net.IP) bool { return netutils.IsIPv6(ip) == netutils.IsIPv6(a.unspecified) })
		return []string{usable[max(preferred, 0)].String()}
	}
	before := a.current()
	if failed, ok := errors.AsType[*net.DNSError](err); ok && failed.Temporary() && len(before) > 0 && has(net.ParseIP(before[0])) {
		return before // the name server does not answer now
	}
	return a.byRoute()
}

// byRoute returns the address of the interface with the default route.
func (a *addresses) byRoute() []string {
	ip, err := a.route(a.unspecified)
	if err != nil || ip.IsLoopback() {
		return nil
	}
	return []string{ip.String()}
}

// set reports whether the addresses are other ones than before.
func (a *addresses) set(last []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := slices.Equal(a.last, last)
	a.last = last
	return !same
}

// machineIPs returns the addresses of all interfaces.
func machineIPs() (ips []net.IP) {
	all, _ := net.InterfaceAddrs() // without any, no address is found
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok {
			ips = append(ips, network.IP)
		}
	}
	return ips
}
