package lookup

import (
	"encoding/json"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// networkStatus is the annotation in which Multus and Antrea write the addresses of a pod on other networks. Everybody who may
// change the pod can write it.
//
// k8snetworkplumbingwg/multi-net-spec: 4.1.2 Network Attachment Status Annotation.
const networkStatus = "k8s.v1.cni.cncf.io/network-status"

// maxSecondary is the number of secondary addresses of a pod that count. Real pods have few, but the annotation can have 50,000.
const maxSecondary = 256

// ips returns the addresses of a pod, and then its secondary ones.
func ips(pod *v1.Pod) []netip.Addr { return addSecondary(addresses(&pod.Status), pod) }

// addSecondary adds the addresses that a pod has on other networks than the default one.
func addSecondary(all []netip.Addr, pod *v1.Pod) []netip.Addr {
	status := pod.Annotations[networkStatus]
	if status == "" {
		return all
	}
	var networks []struct {
		IPs     []string `json:"ips"`
		Default bool     `json:"default"`
	}
	if json.Unmarshal([]byte(status), &networks) != nil {
		return all // another program wrote it
	}
	most := len(all) + maxSecondary
	for _, network := range networks {
		if network.Default {
			continue // the pod's status has its addresses
		}
		for _, s := range network.IPs {
			if len(all) == most {
				return all
			}
			if ip, ok := parseIP(s); ok && !slices.Contains(all, ip) {
				all = append(all, ip)
			}
		}
	}
	return all
}

// isSecondary reports whether an address is none of those in the status of a pod.
func isSecondary(versions []version, ip netip.Addr) bool {
	return !slices.ContainsFunc(versions, func(v version) bool { return slices.Contains(addresses(&v.Object.Status), ip) })
}
