package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/testutil/podtest"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a Lookup with a runtime that only tests change.
type node struct {
	*Lookup

	t       *testing.T
	journal *journal.Journal
	runtime *fakeRuntime
}

// fakeRuntime has the containers of a runtime without their pods.
type fakeRuntime struct {
	mu     sync.Mutex // guards what follows
	pods   []*pleg.Pod
	events func(pleg.RuntimeEvent)
	lists  int
	fails  error
	// hangs is closed when the runtime answers again; nil if it answers.
	hangs chan struct{}
}

// hang stops the answers until answer is called.
func (r *fakeRuntime) hang() (answer func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hangs := make(chan struct{})
	r.hangs = hangs
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hangs = nil
		close(hangs)
	}
}

// answers waits until the runtime answers.
func (r *fakeRuntime) answers() {
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
}

// fail makes each call fail.
func (r *fakeRuntime) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = err
}

// listed returns the number of lists.
func (r *fakeRuntime) listed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists
}

func (r *fakeRuntime) Pods(context.Context) ([]*pleg.Pod, error) {
	r.answers()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	pods := make([]*pleg.Pod, len(r.pods))
	for i, p := range r.pods {
		pods[i] = &pleg.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name, Containers: slices.Clone(p.Containers)}
	}
	return pods, r.fails
}

func (r *fakeRuntime) ExitCode(context.Context, string) (*int32, error) { return new(int32(3)), nil }

func (r *fakeRuntime) Ping(context.Context) error {
	r.answers()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fails
}

func (r *fakeRuntime) Events(ctx context.Context, opened func(), handle func(pleg.RuntimeEvent)) error {
	r.mu.Lock()
	r.events = handle
	r.mu.Unlock()
	opened()
	<-ctx.Done()
	return context.Cause(ctx)
}

// set replaces the containers of a pod: "ID name state", a sandbox has the name "-".
func (r *fakeRuntime) set(uid, name string, containers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = slices.DeleteFunc(r.pods, func(p *pleg.Pod) bool { return string(p.UID) == uid })
	p := &pleg.Pod{UID: types.UID(uid), Namespace: "default", Name: name}
	states := map[string]pleg.State{"created": pleg.StateCreated, "running": pleg.StateRunning, "exited": pleg.StateExited}
	for i, c := range containers {
		f := strings.Fields(c)
		p.Containers = append(p.Containers, pleg.Container{
			ID: f[0], Name: strings.Trim(f[1], "-"), Sandbox: f[1] == "-", State: states[f[2]], CreatedAt: time.Unix(int64(i), 0),
		})
	}
	if len(containers) > 0 {
		r.pods = append(r.pods, p)
	}
}

// started sends the event that a container of the pods started.
func (r *fakeRuntime) started(uid, id string) {
	r.mu.Lock()
	i := slices.IndexFunc(r.pods, func(p *pleg.Pod) bool { return string(p.UID) == uid })
	e, handle := pleg.RuntimeEvent{Type: pleg.EventStarted, ContainerID: id, Pod: r.pods[i]}, r.events
	r.mu.Unlock()
	handle(e)
}

// onNode runs a test with virtual time, on a node whose sources are file and api.
func onNode(t *testing.T, withRuntime bool, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		n := &node{t: t, runtime: new(fakeRuntime), journal: journal.New(journal.Options{Sources: []string{"api", "file"}})}
		opts := Options{Journal: n.journal, Proc: t.TempDir()}
		var generator *pleg.Generator
		if withRuntime {
			generator = pleg.New(pleg.Options{Runtime: n.runtime})
			opts.Runtime = generator
		}
		n.Lookup = New(opts)
		done := make(chan error)
		go func() { done <- n.Run(ctx) }()
		stop := func() { <-done }
		if generator != nil {
			running := make(chan error)
			go func() { running <- generator.Run(ctx) }()
			events := make(chan struct{})
			go func() {
				defer close(events)
				for {
					select {
					case <-generator.Watch():
					case <-ctx.Done():
						return
					}
				}
			}()
			stop = func() { <-done; <-running; <-events }
		}
		n.deliver(config.ADD, "file")
		n.deliver(config.ADD, "api")
		n.pass(2 * time.Second) // the generator relies on events
		test(n)
		cancel(errors.New("the test has ended"))
		stop()
	})
}

// pass lets virtual time pass.
func (n *node) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// deliver appends an update of a source.
func (n *node) deliver(op config.PodOperation, source string, pods ...*v1.Pod) {
	n.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: pods})
	synctest.Wait()
}

// pod returns a pod whose UID is its name, with IPs.
func pod(name string, ips ...string) *v1.Pod {
	return podtest.Pod(name, podtest.Label("app", name), podtest.Phase(v1.PodRunning), podtest.IPs(ips...))
}

// mirrorOf returns a mirror pod.
func mirrorOf(p *v1.Pod, uid string) *v1.Pod {
	m := p.DeepCopy()
	m.UID, m.Annotations = types.UID(uid), map[string]string{v1.MirrorPodAnnotationKey: string(p.UID)}
	return m
}

// find returns an answer as "source name container state", one for each pod, or the error.
func (n *node) find(q Query) string {
	n.t.Helper()
	if faults := q.Validate(); len(faults) > 0 {
		n.t.Fatalf("%+v: %v", q, faults)
	}
	answer, err := n.Find(n.t.Context(), nil, &q)
	if err != nil {
		return err.Error()
	}
	if answer.Instance != n.journal.Instance() || answer.Revision > n.journal.Revision() {
		n.t.Errorf("%+v: the answer is of %s %d", q, answer.Instance, answer.Revision)
	}
	all := make([]string, len(answer.Pods))
	for i, p := range answer.Pods {
		all[i] = cmp.Or(p.Source, "orphan") + " " + p.Name
		if p.Ended != nil {
			all[i] += " ended"
		}
		if c := p.Container; c != nil {
			all[i] += " " + cmp.Or(c.Name, "-") + " " + cmp.Or(c.State, "?")
			if c.ExitCode != nil {
				all[i] += fmt.Sprint(" ", *c.ExitCode)
			}
			if c.Ended != nil {
				all[i] += " ended"
			}
		}
		if (p.Source == "") != (p.Labels == nil) || (p.Source == "") != (p.Revision == 0) {
			n.t.Errorf("%+v: %+v", q, p)
		}
	}
	return strings.Join(all, ", ")
}

func (n *node) expect(want string, q Query) {
	n.t.Helper()
	if got := n.find(q); got != want {
		n.t.Errorf("%+v: got %q, want %q", q, got, want)
	}
}

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

// A UID in two sources and a mirror pod are answered as the Kubernetes API shows them.
func TestMirrorsAndDoubles(t *testing.T) {
	onNode(t, true, func(n *node) {
		static := pod("web", "10.0.0.1")
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		n.deliver(config.ADD, "api", mirrorOf(static, "mirror"))
		n.find(Query{ContainerID: "none", Wait: time.Millisecond})
		n.expect("api web app running", Query{ContainerID: "c1"})
		n.expect("api web", Query{PodUID: "web"})
		n.expect("api web", Query{PodUID: "mirror"})
		n.deliver(config.ADD, "file", static)
		n.expect("file web app running", Query{ContainerID: "c1"})
		n.expect("file web", Query{PodIP: "10.0.0.1"})
		n.expect("api web", Query{PodUID: "mirror"})
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
		n := &node{t: t, journal: j, Lookup: New(Options{Journal: j})}
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
			return len(n.pods.ended)
		}
		if got := kept(); got != maxEnded {
			t.Errorf("%d pods are kept, want %d", got, maxEnded)
		}
		n.pass(knownAfterEnd + time.Second)
		if got := kept(); got != 0 {
			t.Errorf("%d pods are kept after %v", got, knownAfterEnd)
		}
	})
}
