package lookup

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// A container of a static pod that ended is that of the static pod, whichever of the two pods ended last. Its cgroup has the UID of
// the static pod.
func TestContainersOfAStaticPodThatEnded(t *testing.T) {
	id := strings.Repeat("a", 64)
	queries := map[string]Query{"by its ID": {ContainerID: id}, "by its cgroup": {Cgroup: "/kubepods/podweb/" + id}}
	for name, query := range queries {
		for end, removed := range map[string][]string{
			"the mirror pod last": {"file", "api"}, "the static pod last": {"api", "file"}, "only a mirror pod": {"api"},
		} {
			t.Run(name+", "+end, func(t *testing.T) {
				onNode(t, true, func(n *node) {
					static := withStatus(pod("web", "10.0.0.1"), id, "c0")
					pods := map[string]*v1.Pod{"file": static, "api": mirrorOf(static, "mirror")}
					for _, source := range removed {
						n.deliver(config.ADD, source, pods[source])
					}
					for _, source := range removed {
						n.deliver(config.REMOVE, source, pods[source])
					}
					want := "file web ended app exited 3 ended"
					if len(removed) == 1 {
						want = "api web ended app exited 3 ended"
					}
					n.expect(want, query)
				})
			})
		}
		// A client sees the one or the other.
		for _, source := range []string{"file", "api"} {
			t.Run(name+", a client that sees "+source, func(t *testing.T) {
				onNode(t, true, func(n *node) {
					static := withStatus(pod("web", "10.0.0.1"), id, "c0")
					n.deliver(config.ADD, "file", static)
					n.deliver(config.ADD, "api", mirrorOf(static, "mirror"))
					n.deliver(config.REMOVE, "file", static)
					n.deliver(config.REMOVE, "api", mirrorOf(static, "mirror"))
					policy := access.NewPolicy([]access.Rule{{Sources: []string{source}, View: access.Full}})
					scope, err := view.NewGate(n.journal, policy).Scope(access.Subject{User: "agent"})
					if err != nil {
						t.Fatal(err)
					}
					answer, err := n.Find(n.t.Context(), scope, &query)
					if err != nil || answer.Pods[0].Source != source || answer.Pods[0].Container.Name != "app" {
						t.Errorf("got %+v, %v", answer, err)
					}
				})
			})
		}
	}
}

// Of the mirror pods of a static pod, the one that ended last counts, also if the log is read later.
func TestTheLastMirrorPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, read := time.Now(), make(chan struct{})
		static := pod("web", "10.0.0.1")
		past := func(time.Time) iter.Seq2[*journal.Pod, time.Time] {
			return func(yield func(*journal.Pod, time.Time) bool) {
				<-read
				yield(journal.NewPod("api", mirrorOf(static, "first")).At(7), began.Add(-30*time.Second))
			}
		}
		j := journal.New(journal.Options{Sources: []string{"api"}})
		n := &node{t: t, journal: j, Lookup: New(Options{Journal: j, Retention: retention, MaxEnded: 3, Past: past})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.Run(ctx) }()
		n.deliver(config.ADD, "api", mirrorOf(static, "second"))
		n.deliver(config.REMOVE, "api", mirrorOf(static, "second"))
		close(read)
		synctest.Wait()
		if answer, err := n.Find(ctx, nil, &Query{PodUID: "web"}); err != nil || answer.Pods[0].UID != "second" {
			t.Errorf("got %+v, %v", answer, err)
		}
		cancel()
		<-done
	})
}

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
