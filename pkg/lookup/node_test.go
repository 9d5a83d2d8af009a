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

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

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

func (r *fakeRuntime) Exit(context.Context, string) (*pleg.Exit, error) {
	return &pleg.Exit{Code: 3}, nil
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

// retention and maxEnded are how long pods that ended are known in the tests, and how many.
const (
	retention = time.Minute
	maxEnded  = 2048
)

// onNode runs a test with virtual time, on a node whose sources are file and api.
func onNode(t *testing.T, withRuntime bool, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		n := &node{t: t, runtime: new(fakeRuntime), journal: journal.New(journal.Options{Sources: []string{"api", "file"}})}
		opts := Options{Journal: n.journal, Proc: t.TempDir(), Retention: retention, MaxEnded: maxEnded}
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
