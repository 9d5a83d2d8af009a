package lookup

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// version is one of the pods that a target can be, and when it ended; nil for a present one.
type version struct {
	*journal.Pod

	ended *time.Time
}

// ofUID returns the pod with a UID, or the mirror pod of the static pod with that UID, with its versions; none if the UID is
// not known. name is the name of the pod in the runtime; empty if it is not known.
func (p *pods) ofUID(uid types.UID, name string) []version {
	if pod := p.byUID[uid]; pod != nil {
		return p.versions(version{Pod: pod})
	}
	ended := p.ended.ofUID(uid)
	if ended != nil {
		name = ended.name
	}
	if mirror := p.mirrorOf(uid, name); mirror != nil {
		return p.versions(version{Pod: mirror})
	}
	if ended == nil {
		ended = p.ended.mirrorOf(uid, name)
	}
	if ended == nil {
		return nil
	}
	return p.versions(ended.version())
}

// mirrorOf returns the mirror pod of the static pod with a UID and a name. Without a name, it is the first one with the
// annotation.
func (p *pods) mirrorOf(uid types.UID, name string) *journal.Pod {
	for _, mirror := range p.byStatic[uid] {
		if name == "" || nameOf(mirror) == name {
			return mirror
		}
	}
	return nil
}

func nameOf(pod *journal.Pod) string { return pod.Object.Namespace + "/" + pod.Object.Name }

// versions returns what a pod can be shown as, the best first, and the pod itself last. A mirror pod and its static pod are one
// pod, which has the identity of the static pod. They have the same name: a pod with another name that is annotated as the mirror
// pod is none. A client that does not see the static pod may see the mirror pod.
func (p *pods) versions(v version) []version {
	uid, mirror := staticUID(v.Pod)
	if !mirror {
		return []version{v}
	}
	if static := p.byUID[uid]; static != nil && nameOf(static) == nameOf(v.Pod) {
		return []version{{Pod: static}, v}
	}
	if v.ended != nil {
		if e := p.ended.ofUID(uid); e != nil && e.name == nameOf(v.Pod) {
			return []version{e.version(), v}
		}
	}
	return []version{v}
}

// ofIP calls found with the versions of each pod with an IP: first pods that can run, then completed pods, then removed pods,
// the one that ended last first, until found returns false. A pod can come twice. With a time, they are the pods that had the IP
// then.
func (p *pods) ofIP(ip netip.Addr, at time.Time, found func([]version) bool) {
	present := slices.DeleteFunc(slices.Clone(p.byIP[ip]), func(pod *journal.Pod) bool { return !at.IsZero() && !had(pod.Object, at) })
	slices.SortFunc(present, func(a, b *journal.Pod) int {
		return cmp.Or(
			cmp.Compare(btoi(completed(a)), btoi(completed(b))),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	for _, pod := range present {
		if !found(p.versions(version{Pod: pod})) {
			return
		}
	}
	for _, e := range p.ended.ofIP(ip) {
		if present := p.byUID[e.static]; at.IsZero() && e.mirror && present != nil && nameOf(present) == e.name || p.mirrorOf(e.uid, e.name) != nil {
			continue // its static pod is present and has another IP by now, or its mirror pod is present
		}
		if v := e.version(); (at.IsZero() || !at.After(e.at) && had(v.Object, at)) && !found(p.versions(v)) {
			return
		}
	}
}

// had reports whether a pod had its IP at a time, as far as its status says. The IP of a completed pod is free again.
func had(pod *v1.Pod, at time.Time) bool {
	if start := pod.Status.StartTime; start != nil && at.Before(start.Time) {
		return false
	}
	if pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
		return true
	}
	var last time.Time
	for _, s := range containerStatuses(&pod.Status) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	return !isOver(last, at)
}

// mirror returns the mirror pod whose status is the best that is known of a pod; nil if there is none with an IP, or if the
// runtime or the kubelet gave the pod a status.
func (p *pods) mirror(v version) *journal.Pod {
	if v.Status != nil || v.ended != nil && len(addresses(&v.Object.Status)) > 0 {
		return nil
	}
	mirror := p.mirrorOf(v.Object.UID, nameOf(v.Pod))
	if e := p.ended.mirrorOf(v.Object.UID, nameOf(v.Pod)); mirror == nil && v.ended != nil && e != nil {
		mirror = e.version().Pod
	}
	if mirror == nil || len(ips(mirror.Object)) == 0 {
		return nil
	}
	return mirror
}

// staticUID returns the UID of the static pod of a mirror pod.
//
// kubelet: pkg/kubelet/pod/mirror_client.go CreateMirrorPod; the hash of a static pod is its
// UID.
func staticUID(pod *journal.Pod) (uid types.UID, mirror bool) {
	hash, mirror := pod.Object.Annotations[v1.MirrorPodAnnotationKey]
	return types.UID(hash), mirror
}

func isMirror(pod *journal.Pod) bool {
	_, mirror := staticUID(pod)
	return mirror
}

// addresses returns the addresses in the status of a pod.
func addresses(status *v1.PodStatus) []netip.Addr {
	all := make([]netip.Addr, 0, len(status.PodIPs)+1)
	add := func(s string) {
		if ip, ok := parseIP(s); ok && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	add(status.PodIP)
	for _, ip := range status.PodIPs {
		add(ip.IP)
	}
	return all
}

// completed reports whether the containers of a pod never run again. Another pod can have its IP.
func completed(pod *journal.Pod) bool {
	return pod.Object.Status.Phase == v1.PodSucceeded || pod.Object.Status.Phase == v1.PodFailed
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

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
