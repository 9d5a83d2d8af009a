package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContainers(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set("web", "web", "s1 - running", "c1 app running", "c2 init exited")
		n.runtime.set("stray", "stray", "s2 - running")
		n.deliver(config.ADD, "file", pod("web", "10.0.0.1"))
		n.pass(6 * time.Minute)
		n.expect("file web app running", Query{ContainerID: "c1"})
		n.expect("file web app running", Query{ContainerID: "containerd://c1"})
		n.expect("file web init exited 3", Query{ContainerID: "cri-o://c2"})
		n.expect("file web - running", Query{ContainerID: "s1"})
		n.expect("orphan stray - running", Query{ContainerID: "s2"})
		n.expect("file web", Query{PodUID: "web"})
		n.expect("orphan stray", Query{PodUID: "stray"})
		n.expect("looking up container c9: the container runtime does not have it", Query{ContainerID: "c9"})
		n.expect("looking up pod UID u9: no source has it, and the container runtime does not have it", Query{PodUID: "u9"})

		n.runtime.fail(errors.New("it is broken"))
		n.pass(10 * time.Second)
		n.expect("file web app running", Query{ContainerID: "c1"})
		n.expect("looking up container c9: the container runtime does not answer: it is broken", Query{ContainerID: "c9"})
	})
}

// A whole pod has its type.
func TestWholePods(t *testing.T) {
	onNode(t, false, func(n *node) {
		n.deliver(config.ADD, "file", pod("web", "10.0.0.1"))
		answer, err := n.Find(n.t.Context(), nil, &Query{PodUID: "web", Pods: true})
		if err != nil {
			t.Fatal(err)
		}
		if p := answer.Pods[0].Pod; p == nil || p.Kind != "Pod" || p.APIVersion != "v1" || p.Status.PodIP != "10.0.0.1" {
			t.Errorf("got %+v", p)
		}
		if p := n.journal.State().Pods[0].Object; p.Kind != "" {
			t.Errorf("the journal's pod changed: %+v", p)
		}
	})
}

// By whom the status is, is asked only for a UID: the sync loop answers it.
func TestByWhomTheStatusIs(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.deliver(config.ADD, "file", pod("web", "10.0.0.1"))
		asked := 0
		n.by = func(_ context.Context, uid types.UID) (map[string]string, error) {
			asked++
			return map[string]string{"file": "kubelet of " + string(uid), "api": "source"}, nil
		}
		for q, want := range map[Query]string{{PodUID: "web"}: "kubelet of web", {PodIP: "10.0.0.1"}: ""} {
			answer, err := n.Find(n.t.Context(), nil, &q)
			if err != nil || answer.Pods[0].StatusBy != want {
				t.Errorf("%+v: got %+v, %v", q, answer, err)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestWithoutARuntime(t *testing.T) {
	onNode(t, false, func(n *node) {
		n.deliver(config.ADD, "file", pod("web"))
		const none = "there is no container runtime: name one with --container-runtime-endpoint"
		n.expect("looking up container c1: "+none, Query{ContainerID: "c1", Wait: time.Second})
		n.expect("file web", Query{PodUID: "web"})
		n.expect("looking up pod UID u9: no source has it", Query{PodUID: "u9", Wait: time.Second})
		id := strings.Repeat("a", 64)
		n.expect("file web - ?", Query{Cgroup: "/kubepods/podweb/" + id, Wait: time.Second})
		n.expect("looking up cgroup /kubepods/podother/"+id+": "+none, Query{Cgroup: "/kubepods/podother/" + id})
	})
}

// Two sources can have a UID under two names. One of them stays with its IP when the other is removed.
func TestOneUIDUnderTwoNames(t *testing.T) {
	onNode(t, false, func(n *node) {
		web, other := pod("web", "10.0.0.1"), pod("other", "10.0.0.1")
		other.UID = web.UID
		n.deliver(config.ADD, "file", web)
		n.deliver(config.ADD, "api", other)
		n.deliver(config.REMOVE, "api", other)
		n.expect("file web", Query{PodUID: web.UID})
		n.expect("file web", Query{PodIP: "10.0.0.1"})
	})
}

// What ended is known for a minute, and marked.
func TestEnded(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		n.runtime.set("stray", "stray", "s2 - running")
		n.deliver(config.ADD, "file", pod("web", "10.0.0.1"))
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		n.runtime.set("web", "web", "s1 - running")
		n.runtime.set("stray", "stray")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.expect("file web app exited ended", Query{ContainerID: "c1"})
		n.expect("orphan stray ended - exited ended", Query{ContainerID: "s2"})
		n.expect("orphan stray ended", Query{PodUID: "stray", Wait: time.Second})
		n.pass(50 * time.Second)
		n.deliver(config.REMOVE, "file", pod("web", "10.0.0.1"))
		n.expect("file web ended app exited ended", Query{ContainerID: "c1", Wait: time.Second})
		n.expect("file web ended - running", Query{ContainerID: "s1", Wait: time.Second})
		n.expect("file web ended", Query{PodUID: "web"})
		n.expect("file web ended", Query{PodIP: "10.0.0.1"})
		n.pass(11 * time.Second)
		n.expect("looking up container c1: the container runtime does not have it", Query{ContainerID: "c1"})
		n.expect("looking up pod UID stray: no source has it, and the container runtime does not have it", Query{PodUID: "stray"})
		n.expect("file web ended - running", Query{ContainerID: "s1"})
		n.pass(50 * time.Second)
		n.expect("orphan web - running", Query{ContainerID: "s1"})
		n.expect("looking up pod IP 10.0.0.1: no pod has it", Query{PodIP: "10.0.0.1"})
	})
}

// A UID in two sources is answered as the Kubernetes API shows it.
func TestMirrorsAndDoubles(t *testing.T) {
	onNode(t, true, func(n *node) {
		static := pod("web", "10.0.0.1")
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		n.deliver(config.ADD, "api", mirrorOf(static, "mirror"))
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.expect("api web app running", Query{ContainerID: "c1"})
		n.expect("api web", Query{PodUID: "web"})
		n.expect("api web", Query{PodUID: "mirror"})
		n.deliver(config.ADD, "file", static)
		n.expect("file web app running", Query{ContainerID: "c1"})
		n.expect("file web", Query{PodIP: "10.0.0.1"})
		n.expect("file web", Query{PodUID: "mirror"})
		n.deliver(config.REMOVE, "api", mirrorOf(static, "mirror"))
		n.expect("file web app running", Query{ContainerID: "c1"})
		n.expect("file web", Query{PodIP: "10.0.0.1"})

		n.deliver(config.ADD, "api", pod("web", "10.0.0.1"))
		n.expect("api web", Query{PodUID: "web"})
		n.expect("api web", Query{PodIP: "10.0.0.1"})
		n.deliver(config.REMOVE, "api", pod("web"))
		n.expect("file web", Query{PodUID: "web"})
	})
}

func TestIPs(t *testing.T) {
	onNode(t, false, func(n *node) {
		host, other := pod("host", "192.168.0.1", "fd00::1"), pod("other", "192.168.0.1")
		host.Spec.HostNetwork, other.Spec.HostNetwork = true, true
		done := pod("done", "10.0.0.1")
		done.Status.Phase = v1.PodSucceeded
		n.deliver(config.ADD, "file", host, other, done)
		n.expect("file host, file other", Query{PodIP: "192.168.0.1"})
		n.expect("file host, file other", Query{PodIP: "::ffff:192.168.0.1"})
		n.expect("file host", Query{PodIP: "fd00:0:0::0001"})
		n.expect("file host", Query{PodIP: "FD00::1"})
		n.expect("file done", Query{PodIP: "10.0.0.1"})
		n.deliver(config.ADD, "api", pod("web", "10.0.0.1"))
		n.expect("api web, file done", Query{PodIP: "10.0.0.1"})
		n.deliver(config.RECONCILE, "api", pod("web", "10.0.0.2"))
		n.expect("file done", Query{PodIP: "10.0.0.1"})
		n.expect("api web", Query{PodIP: "10.0.0.2"})
		n.deliver(config.REMOVE, "api", pod("web"))
		n.deliver(config.ADD, "api", pod("next", "10.0.0.2"))
		n.expect("api next, api web ended", Query{PodIP: "10.0.0.2"})
		n.expect("looking up pod IP 10.0.0.3: no pod has it", Query{PodIP: "10.0.0.3"})
	})
}

// The records of pods are right also after the journal no longer has what changed.
func TestBehindTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(journal.Options{Sources: []string{"file"}, MaxUpdates: 2})
		n := &node{t: t, journal: j, Lookup: New(Options{Journal: j, Retention: retention, MaxEnded: maxEnded})}
		n.deliver(config.ADD, "file", pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
		n.expect("file a", Query{PodIP: "10.0.0.1"})
		n.deliver(config.REMOVE, "file", pod("a"))
		for i := range 10 {
			n.deliver(config.RECONCILE, "file", pod("b", fmt.Sprintf("10.0.1.%d", i)))
		}
		n.expect("file a ended", Query{PodIP: "10.0.0.1"})
		n.expect("looking up pod IP 10.0.0.2: no pod has it", Query{PodIP: "10.0.0.2"})
		n.expect("file b", Query{PodIP: "10.0.1.9"})
		n.expect("file a ended", Query{PodUID: "a"})
		n.expect("file b", Query{PodUID: "b"})
	})
}

// The number of pods that ended is limited.
func TestManyEnd(t *testing.T) {
	onNode(t, false, func(n *node) {
		for i := range maxEnded + 10 {
			p := pod(fmt.Sprint("p", i))
			n.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{p}})
			n.journal.Append(config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: []*v1.Pod{p}})
		}
		n.expect("looking up pod UID p9: no source has it", Query{PodUID: "p9"})
		n.expect("file p10 ended", Query{PodUID: "p10"})
		kept := func() int {
			n.pods.mu.Lock()
			defer n.pods.mu.Unlock()
			return len(n.pods.ended.all)
		}
		if got := kept(); got != maxEnded {
			t.Errorf("%d pods are kept, want %d", got, maxEnded)
		}
		n.pass(retention + time.Second)
		if got := kept(); got != 0 {
			t.Errorf("%d pods are kept after %v", got, retention)
		}
	})
}
