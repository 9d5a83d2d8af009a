package lookup

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// A static pod had the IP of an earlier mirror pod at that time.
func TestAnEarlierIPOfAStaticPod(t *testing.T) {
	onNode(t, false, func(n *node) {
		mirror := func(uid, ip string) *v1.Pod {
			m := mirrorOf(pod("web", ip), uid)
			m.Status.StartTime = &metav1.Time{Time: time.Now()}
			return m
		}
		static := pod("web")
		static.Status = v1.PodStatus{}
		first := mirror("first", "10.0.0.1")
		began := time.Now()
		n.deliver(config.ADD, "file", static)
		n.deliver(config.ADD, "api", first)
		n.pass(10 * time.Second)
		n.deliver(config.REMOVE, "api", first)
		n.pass(10 * time.Second)
		n.deliver(config.ADD, "api", mirror("second", "10.0.0.2"))
		n.expect("file web", Query{PodIP: "10.0.0.2"})
		n.expect("file web", Query{PodIP: "10.0.0.1", At: began.Add(5 * time.Second)})
		n.expect("looking up pod IP 10.0.0.1: no pod had it then", Query{PodIP: "10.0.0.1", At: began.Add(15 * time.Second)})
		n.expect("looking up pod IP 10.0.0.1: no pod has it", Query{PodIP: "10.0.0.1"})
	})
}
