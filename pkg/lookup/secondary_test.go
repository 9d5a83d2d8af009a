package lookup

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// onNetworks returns a pod with addresses on other networks.
func onNetworks(p *v1.Pod, status string) *v1.Pod {
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	p.Annotations[networkStatus] = status
	return p
}

func TestSecondaryAddresses(t *testing.T) {
	onNode(t, false, func(n *node) {
		expect := func(want, ip string) {
			n.t.Helper()
			got := ""
			answer, err := n.Find(n.t.Context(), nil, &Query{PodIP: ip})
			if err != nil {
				got = err.Error()
			} else {
				for _, p := range answer.Pods {
					got += p.Name
					if p.Secondary {
						got += " secondary"
					}
					if p.Ended != nil {
						got += " ended"
					}
					got += fmt.Sprint(" ", p.PodIPs, " ")
				}
			}
			if got != want {
				n.t.Errorf("%s: got %q, want %q", ip, got, want)
			}
		}
		multus := `[{"name":"cbr0","interface":"eth0","ips":["10.0.0.1","10.0.0.99"],"default":true,"dns":{}},
			{"name":"default/storage","interface":"net1","ips":["192.168.7.5","FD00:0::7","10.0.0.1","no"],"mac":"00:00:00:00:00:01","dns":{}}, {"name":"none"}]`
		n.deliver(config.ADD, "api", onNetworks(pod("web", "10.0.0.1"), multus), onNetworks(pod("broken", "10.0.0.2"), `{"ips":["192.168.7.5"]}`))
		expect("web secondary [10.0.0.1] ", "192.168.7.5")
		expect("web secondary [10.0.0.1] ", "fd00::7")
		expect("web [10.0.0.1] ", "10.0.0.1")
		expect("looking up pod IP 10.0.0.99: no pod has it", "10.0.0.99") // its status will have it

		// Everybody who may change a pod can claim an address. The pod that has it in its status comes first.
		n.deliver(config.ADD, "api", onNetworks(pod("a", "10.0.0.3"), `[{"ips":["10.0.0.1"]}]`))
		expect("web [10.0.0.1] a secondary [10.0.0.3] ", "10.0.0.1")
		n.deliver(config.UPDATE, "api", pod("a", "10.0.0.3"))
		expect("web [10.0.0.1] ", "10.0.0.1")
		n.deliver(config.REMOVE, "api", pod("web"))
		expect("web secondary ended [10.0.0.1] ", "192.168.7.5")
	})
}

// The mirror pod has the annotation, and the static pod the identity.
func TestSecondaryAddressesOfAStaticPod(t *testing.T) {
	onNode(t, false, func(n *node) {
		mirror := onNetworks(mirrorOf(pod("web", "10.0.0.1"), "mirror"), `[{"ips":["192.168.7.5"]}]`)
		n.deliver(config.ADD, "file", pod("web"))
		n.deliver(config.ADD, "api", mirror)
		for ip, want := range map[string]bool{"10.0.0.1": false, "192.168.7.5": true} {
			answer, err := n.Find(n.t.Context(), nil, &Query{PodIP: ip})
			if err != nil || len(answer.Pods) != 1 || answer.Pods[0].UID != "web" || answer.Pods[0].Secondary != want {
				n.t.Errorf("%s: %+v, %v", ip, answer, err)
			}
		}
	})
}

// The annotation of one pod can have tens of thousands of addresses. Each takes memory, and comparing all takes seconds.
func TestSecondaryAddressesAreLimited(t *testing.T) {
	const all = 30000
	var list strings.Builder
	for i := range all {
		fmt.Fprintf(&list, `,"1::%x"`, i)
	}
	found := ips(onNetworks(pod("web", "10.0.0.1", "fd00::1"), `[{"ips":[`+list.String()[1:]+`]}]`))
	if n := len(found); n != 2+maxSecondary || found[n-1] != netip.MustParseAddr(fmt.Sprintf("1::%x", maxSecondary-1)) {
		t.Errorf("got %d addresses, the last one is %v", n, found[n-1])
	}
}
