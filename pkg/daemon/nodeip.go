package daemon

import (
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

// nodeIPs returns a function that returns the addresses of the node. Without an address in
// the configuration, it is the name of the node, if that is an address. Otherwise it is the address of the
// interface with the default route, which may change. Without such an interface, there is none.
//
// kubelet: pkg/kubelet/nodestatus/setters.go NodeAddress, which also resolves the name.
func nodeIPs(configured string, name types.NodeName) func() []string {
	if ip := netutils.ParseIPSloppy(string(name)); ip != nil && !isAddress(configured) {
		return func() []string { return []string{ip.String()} }
	}
	ips, _ := parseNodeIP(configured) // it is validated
	if len(ips) > 0 && !ips[0].IsUnspecified() {
		fixed := make([]string, len(ips))
		for i, ip := range ips {
			fixed[i] = ip.String()
		}
		return func() []string { return fixed }
	}
	unspecified := net.IPv4zero
	if len(ips) > 0 {
		unspecified = ips[0]
	}
	return sometimes(addressPeriod, func() []string {
		ip, err := utilnet.ResolveBindAddress(unspecified)
		if err != nil || ip.IsLoopback() {
			return nil
		}
		return []string{ip.String()}
	})
}

// addressPeriod is how long the address of the interface with the default route is not read again. The kubelet reads it in
// each node-status-update-frequency, 10 seconds by default.
const addressPeriod = 10 * time.Second

// sometimes returns a function that returns the last result of read. It calls read if that result is empty, or as old as the
// period.
func sometimes(period time.Duration, read func() []string) func() []string {
	var (
		mu   sync.Mutex
		last []string
		at   time.Time
	)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if len(last) == 0 || time.Since(at) >= period {
			last, at = read(), time.Now()
		}
		return last
	}
}
