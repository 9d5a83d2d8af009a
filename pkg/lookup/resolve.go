package lookup

import (
	"cmp"
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
// not known.
func (p *pods) ofUID(uid types.UID) []version {
	if pod := cmp.Or(p.byUID[uid], p.byStatic[uid]); pod != nil {
		return p.versions(version{Pod: pod})
	}
	now := time.Now()
	for _, e := range slices.Backward(p.ended) {
		if static, mirror := staticUID(e.Pod); now.Sub(e.at) <= knownAfterEnd && (e.Object.UID == uid || mirror && static == uid) {
			return p.versions(version{e.Pod, &e.at})
		}
	}
	return nil
}

// versions returns what a pod can be shown as, the best first, and the pod itself last. A mirror pod and its static pod are one
// pod, which has the identity of the static pod. A client that does not see the static pod may see the mirror pod.
func (p *pods) versions(v version) []version {
	uid, mirror := staticUID(v.Pod)
	if !mirror {
		return []version{v}
	}
	if static := p.byUID[uid]; static != nil {
		return []version{{Pod: static}, v}
	}
	if v.ended != nil {
		for _, e := range slices.Backward(p.ended) {
			if e.Object.UID == uid {
				return []version{{e.Pod, &e.at}, v}
			}
		}
	}
	return []version{v}
}

// ofIP calls found with the versions of each pod with an IP: first pods that can run, then completed pods, then removed pods,
// the newest first. A pod can come twice.
func (p *pods) ofIP(ip netip.Addr, found func([]version)) {
	present := slices.Clone(p.byIP[ip])
	slices.SortFunc(present, func(a, b *journal.Pod) int {
		return cmp.Or(
			cmp.Compare(btoi(completed(a)), btoi(completed(b))),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	for _, pod := range present {
		found(p.versions(version{Pod: pod}))
	}
	now := time.Now()
	for _, e := range slices.Backward(p.ended) {
		if static, mirror := staticUID(e.Pod); mirror && p.byUID[static] != nil || p.byStatic[e.Object.UID] != nil {
			continue // its static pod, or its mirror pod, is present
		}
		if now.Sub(e.at) <= knownAfterEnd && slices.Contains(ips(e.Object), ip) {
			found(p.versions(version{e.Pod, &e.at}))
		}
	}
}

// mirror returns the mirror pod whose status is the best that is known of a pod; nil if there is none with an IP, or if the
// runtime or the kubelet gave the pod a status.
func (p *pods) mirror(pod *journal.Pod) *journal.Pod {
	if mirror := p.byStatic[pod.Object.UID]; mirror != nil && pod.Status == nil && len(ips(mirror.Object)) > 0 {
		return mirror
	}
	return nil
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

// ips returns the addresses of a pod.
func ips(pod *v1.Pod) []netip.Addr { return addresses(&pod.Status) }

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
