package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// begin starts a query, and returns a function that waits for its answer, which has the time
// that it took.
func (n *node) begin(q Query) (end func() string) {
	n.t.Helper()
	answer := make(chan string, 1)
	start := time.Now()
	go func() {
		got := n.find(q)
		answer <- fmt.Sprint(time.Since(start), ": ", got)
	}()
	synctest.Wait()
	return func() string { return <-answer }
}

func (n *node) ends(end func() string, want string) {
	n.t.Helper()
	if got := end(); got != want {
		n.t.Errorf("got %q, want %q", got, want)
	}
}

func TestWait(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.deliver(config.ADD, "file", pod("web"))
		// The event of the runtime ends the wait.
		wait := n.begin(Query{ContainerID: "c1", Wait: 2 * time.Second})
		uid := n.begin(Query{PodUID: "stray", Wait: 2 * time.Second})
		n.pass(time.Second)
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		n.runtime.started("web", "c1")
		n.ends(wait, "1s: file web app running")
		// A list that is demanded ends the wait, if there is no event.
		n.runtime.set("web", "web", "s1 - running", "c1 app running", "c2 app running")
		n.ends(n.begin(Query{ContainerID: "c2", Wait: 2 * time.Second}), "0s: file web app running")
		// Nothing ends the wait.
		n.ends(n.begin(Query{ContainerID: "c3", Wait: 2 * time.Second}), "2s: looking up container c3: the container runtime does not have it")
		n.ends(uid, "2s: looking up pod UID stray: no source has it, and the container runtime does not have it")
		n.clean()
	})
}

// A 404 after a wait rests on a list that was requested after the lookup started.
func TestWaitWhileTheRuntimeHangs(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.pass(time.Millisecond) // the list of this time is over
		answer := n.runtime.hang()
		const behind = "the container runtime has not listed its containers since the lookup started; retry, or wait longer"
		short := n.begin(Query{ContainerID: "c1", Wait: 300 * time.Millisecond})
		uid := n.begin(Query{PodUID: "stray", Wait: 300 * time.Millisecond})
		n.ends(short, "300ms: looking up container c1: "+behind)
		n.ends(uid, "300ms: looking up pod UID stray: "+behind)
		n.ends(n.begin(Query{PodUID: "stray", Wait: 2 * time.Second}), "2s: looking up pod UID stray: the container runtime has not answered for 2s")
		n.ends(n.begin(Query{PodUID: "stray"}), "0s: looking up pod UID stray: the container runtime has not answered for 2s")
		answer()
		n.pass(time.Second)
		n.ends(n.begin(Query{ContainerID: "c1", Wait: time.Second}), "1s: looking up container c1: the container runtime does not have it")
		n.clean()
	})
}

// The runtime has the container before a source has its pod.
func TestWaitForTheSource(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		wait := n.begin(Query{ContainerID: "c1", Wait: 2 * time.Second})
		n.pass(time.Second)
		n.expect("orphan web app running", Query{ContainerID: "c1"})
		late := n.begin(Query{ContainerID: "c1", Wait: 500 * time.Millisecond})
		n.deliver(config.ADD, "file", pod("web"))
		n.ends(wait, "1s: file web app running")
		n.ends(late, "0s: orphan web app running") // the runtime has it for longer

		n.runtime.set("stray", "stray", "s2 - running")
		n.ends(n.begin(Query{ContainerID: "s2", Wait: 2 * time.Second}), "2s: orphan stray - running")
		n.ends(n.begin(Query{ContainerID: "s2", Wait: 3 * time.Second}), "1s: orphan stray - running")
		n.ends(n.begin(Query{PodUID: "stray", Wait: 4 * time.Second}), "1s: orphan stray")
		n.ends(n.begin(Query{PodUID: "stray", Wait: time.Second}), "0s: orphan stray")

		// The mirror pod of a static pod.
		n.runtime.set("static", "static", "s3 - running")
		wait = n.begin(Query{ContainerID: "s3", Wait: 2 * time.Second})
		n.deliver(config.ADD, "api", mirrorOf(pod("static"), "mirror"))
		n.ends(wait, "50ms: api static - running") // the pause after the last list
		n.clean()
	})
}

func TestWaitForAPod(t *testing.T) {
	onNode(t, false, func(n *node) {
		ip, uid := n.begin(Query{PodIP: "10.0.0.1", Wait: time.Minute}), n.begin(Query{PodUID: "web", Wait: time.Minute})
		n.pass(time.Second)
		n.deliver(config.ADD, "file", pod("web"))
		n.ends(uid, "1s: file web")
		n.pass(time.Second)
		n.deliver(config.RECONCILE, "file", pod("web", "10.0.0.1"))
		n.ends(ip, "2s: file web")
		n.clean()
	})
}

// A wait ends when the client leaves.
func TestClientLeaves(t *testing.T) {
	onNode(t, true, func(n *node) {
		ctx, cancel := context.WithCancelCause(n.t.Context())
		left := errors.New("left")
		done := make(chan error)
		for _, q := range []Query{{ContainerID: "c1"}, {PodIP: "10.0.0.1"}, {PodUID: "u"}} {
			q.Wait = time.Minute
			go func() {
				_, err := n.Find(ctx, nil, &q)
				done <- err
			}()
		}
		synctest.Wait()
		cancel(left)
		for range 3 {
			if err := <-done; !errors.Is(err, left) {
				t.Errorf("got %v", err)
			}
		}
		n.clean()
	})
}

// clean checks that no query waits any more.
func (n *node) clean() {
	n.t.Helper()
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	if len(n.pods.waiting) > 0 {
		n.t.Errorf("left is %v", n.pods.waiting)
	}
}

// However many clients wait for unknown IDs, the runtime is listed at most 20 times a second.
func TestListsAreLimited(t *testing.T) {
	onNode(t, true, func(n *node) {
		before := n.runtime.listed()
		for i := range 200 {
			for k := range 5 {
				n.begin(Query{ContainerID: fmt.Sprint("unknown-", i, "-", k), Wait: 500 * time.Millisecond})
			}
			n.pass(10 * time.Millisecond)
		}
		if lists := n.runtime.listed() - before; lists < 10 || lists > 41 {
			t.Errorf("%d lists within 2s", lists)
		}
		n.pass(time.Second)
		before = n.runtime.listed()
		n.pass(10 * time.Second)
		if lists := n.runtime.listed() - before; lists > 10 { // one each relist period
			t.Errorf("%d lists within 10s after the clients left", lists)
		}
		// If the runtime fails, it is listed once a period.
		n.runtime.fail(errors.New("it is broken"))
		n.pass(20 * time.Second)
		before = n.runtime.listed()
		for i := range 100 {
			n.begin(Query{ContainerID: fmt.Sprint("other-", i), Wait: 100 * time.Millisecond})
			n.pass(100 * time.Millisecond)
		}
		if lists := n.runtime.listed() - before; lists > 11 {
			t.Errorf("%d lists within 10s of a runtime that fails", lists)
		}
		n.pass(time.Second)
		n.clean()
	})
}

// A container can run containers itself, which the runtime never has. Nobody waits for them.
func TestNoWaitForANestedContainer(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set(uid, "web", outer+" app running")
		web := pod("web")
		web.UID = uid
		n.deliver(config.ADD, "file", web)
		n.process(10, 1000, "0::/kubepods/pod"+uid+"/"+outer+"/docker/"+inner+"\n")
		n.pass(6 * time.Minute)
		lists := n.runtime.listed()
		n.ends(n.begin(Query{PID: 10, Wait: time.Second}), "0s: file web app running")
		if n.runtime.listed() > lists {
			t.Error("the runtime was listed for it")
		}
		n.clean()
	})
}

// A container that may write below its own cgroup names a cgroup there as the container of another pod. It
// is still a process of its own pod.
func TestANestedCgroupWithTheNameOfAnotherContainer(t *testing.T) {
	const victim = "11111111-b650-4efe-8b91-2164d784397f"
	for _, nested := range []string{"/" + inner, "/kubepods/pod" + victim + "/" + inner, "/docker/" + inner, "/kubepods.slice/kubepods-pod" + strings.ReplaceAll(victim, "-", "_") + ".slice/cri-containerd-" + inner + ".scope"} {
		for _, known := range []string{"its container", "its pod in the runtime", "its pod in a source"} {
			t.Run(known+" is known, "+nested, func(t *testing.T) {
				onNode(t, true, func(n *node) {
					other, web := pod("other"), pod("web")
					other.UID, web.UID = victim, uid
					n.deliver(config.ADD, "file", other)
					n.runtime.set(victim, "other", inner+" app running")
					want := "0s: file web"
					switch known {
					case "its container":
						n.deliver(config.ADD, "file", web)
						n.runtime.set(uid, "web", outer+" app running")
						want += " app running"
					case "its pod in the runtime":
						n.runtime.set(uid, "web", "sandbox - running")
						want = "0s: looking up process 10: the container runtime does not have its container " + outer
					default:
						n.deliver(config.ADD, "file", web)
						want += " - ?"
					}
					n.process(10, 1000, "0::/kubepods/pod"+uid+"/"+outer+nested+"\n")
					n.pass(6 * time.Minute)
					n.ends(n.begin(Query{PID: 10}), want)
					n.clean()
				})
			})
		}
	}
}

// Also a container that the client may not see is the outermost one: what it names is not of the runtime.
func TestANestedCgroupInAHiddenContainer(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup string
		found  bool
	}{
		"not nested":              {"/k8s.io/" + inner, true},
		"nested":                  {"/k8s.io/" + outer + "/" + inner, false},
		"nested, as in a kubelet": {"/k8s.io/" + outer + "/kubepods/podweb/" + inner, false},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, true, func(n *node) {
				hidden, web := pod("hidden"), pod("web")
				hidden.Namespace = "other"
				n.deliver(config.ADD, "file", hidden, web)
				n.runtime.set("hidden", "hidden", outer+" app running")
				n.runtime.set("web", "web", inner+" app running")
				n.pass(6 * time.Minute)
				gate := view.NewGate(n.journal, access.NewPolicy([]access.Rule{{Namespaces: []string{web.Namespace}, View: access.Full}}))
				scope, err := gate.Scope(access.Subject{User: "agent"})
				if err != nil {
					t.Fatal(err)
				}
				answer, err := n.Find(n.t.Context(), scope, &Query{Cgroup: test.cgroup})
				if (err == nil) != test.found {
					t.Errorf("%s: %+v, %v", test.cgroup, answer, err)
				}
				n.clean()
			})
		})
	}
}

// What a lookup finds after a wait is shown by the rules of that time.
func TestRulesAreReplacedDuringAWait(t *testing.T) {
	onNode(t, true, func(n *node) {
		gate := view.NewGate(n.journal, nil)
		scope, err := gate.Scope(access.Subject{User: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan string)
		queries := []Query{{PodUID: "web"}, {PodIP: "10.0.0.1"}, {ContainerID: "c1"}, {PodUID: "stray"}}
		for _, q := range queries {
			q.Wait = time.Minute
			go func() {
				answer, err := n.Find(n.t.Context(), scope, &q)
				answers <- fmt.Sprint(answer, err)
			}()
		}
		synctest.Wait()
		gate.SetPolicy(access.NewPolicy([]access.Rule{{Namespaces: []string{"other"}, View: access.Full}}))
		n.deliver(config.ADD, "file", pod("web", "10.0.0.1"))
		n.runtime.set("stray", "stray", "s1 - running", "c1 app running")
		n.runtime.started("stray", "c1")
		for range queries {
			if got := <-answers; !strings.Contains(got, "no pod that the access rules show has it") {
				t.Errorf("got %s", got)
			}
		}
		n.clean()
	})
}
