package view

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// put appends one pod, "namespace/name=label".
func (j *testJournal) put(op config.PodOperation, what string) {
	key, label, _ := strings.Cut(what, "=")
	namespace, name, _ := strings.Cut(key, "/")
	p := pod(name + "=" + label)
	p.Namespace, p.UID = namespace, types.UID(key)
	j.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{p}})
}

// meta sets the metadata of the only namespace in the apiserver.
func (j *testJournal) meta(name, v string) {
	j.PutNamespaces([]*metav1.ObjectMeta{{Name: name, Labels: map[string]string{"v": v}}})
}

// red is what a subscriber sees with a rule for red pods.
func (j *testJournal) red(t *testing.T) *Scope {
	t.Helper()
	return scopeOf(t, j.gate(rule(t, access.Full, "image=red")))
}

// events returns the events that are available. A bookmark has no object.
func (j *testJournal) events(t *testing.T, c *Cursor) (shown []string) {
	t.Helper()
	for _, e := range available(t, c) {
		s := fmt.Sprintf("%v@%d", e.Op, e.Revision-j.first)
		if e.Object != nil {
			s = fmt.Sprintf("%v %s@%d", e.Op, e.Object.Object.GetName(), e.Revision-j.first)
			if v := e.Object.Object.GetLabels()["v"]; v != "" {
				s += "=" + v
			}
		}
		shown = append(shown, s)
	}
	return shown
}

// available returns the events that are available, each bookmark as an event.
func available(t *testing.T, c *Cursor) (events []ObjectEvent) {
	t.Helper()
	for {
		changed, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, eventsOf(c.out)...)
		if len(c.out) == 0 && changed != nil {
			return events
		}
		clear(c.out) // as who calls Next
	}
}

func eventsOf(frames []*Frame) (events []ObjectEvent) {
	for _, f := range frames {
		if f.Op == config.BOOKMARK {
			events = append(events, ObjectEvent{Op: f.Op, Revision: f.Revision})
		}
		events = append(events, f.Objects...)
	}
	return events
}

func (j *testJournal) expect(t *testing.T, c *Cursor, want string) {
	t.Helper()
	if got := strings.Join(j.events(t, c), ", "); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func (j *testJournal) objects(t *testing.T, opts ObjectsOptions) *Cursor {
	t.Helper()
	c := Objects(j.Journal, opts)
	t.Cleanup(c.Close)
	return c
}

func TestNamespacesAreWatched(t *testing.T) {
	j := newJournal(journal.Options{})
	j.put(config.ADD, "b/x=red")
	j.put(config.ADD, "a/x=blue")
	every := j.objects(t, ObjectsOptions{Kind: journal.Namespaces})
	some := j.objects(t, ObjectsOptions{Options: Options{scope: j.red(t)}, Kind: journal.Namespaces})
	labeled := j.objects(t, ObjectsOptions{Kind: journal.Namespaces, Match: func(o *journal.Object) bool { return o.Object.GetLabels()["v"] == "1" }})
	j.expect(t, every, "ADD b@1, ADD a@3, BOOKMARK@3")
	j.expect(t, some, "ADD b@1, BOOKMARK@3")
	j.expect(t, labeled, "BOOKMARK@3")
	j.put(config.UPDATE, "a/x=red")
	j.meta("a", "1")
	j.put(config.REMOVE, "b/x=red")
	j.put(config.UPDATE, "a/x=blue")
	j.meta("a", "2")
	j.expect(t, every, "UPDATE a@5=1, REMOVE b@6, UPDATE a@8=2")
	j.expect(t, some, "ADD a@4, UPDATE a@5=1, REMOVE b@6, REMOVE a@7=1")
	j.expect(t, labeled, "ADD a@5=1, REMOVE a@8=1")
	for since, want := range map[int64]string{
		4: "UPDATE a@5=1, REMOVE b@6, REMOVE a@7=1", 5: "REMOVE b@6, REMOVE a@7=1", 7: "", 3: "ADD a@4, UPDATE a@5=1, REMOVE b@6, REMOVE a@7=1",
	} {
		j.expect(t, j.objects(t, ObjectsOptions{Options: Options{scope: j.red(t)}, Kind: journal.Namespaces, Since: new(j.first + since)}), want)
	}
	// A subscriber that got no event gets a bookmark in time.
	j.put(config.UPDATE, "a/x=green")
	j.Progress()
	j.expect(t, every, "BOOKMARK@9")
}

// The changes after the current objects are more than the cursor returns at a time. It asks for the events of a set
// twice.
func TestEventsOfManySets(t *testing.T) {
	j := newJournal(journal.Options{})
	j.put(config.ADD, "a/x=red")
	c := j.objects(t, ObjectsOptions{Kind: journal.Namespaces})
	for i := range 2 * lookahead {
		j.meta("a", fmt.Sprint(i))
	}
	for i, e := range available(t, c) {
		switch {
		case i == 0 && e.Op == config.ADD, i == 1 && e.Op == config.BOOKMARK:
		case e.Object == nil || e.Op != config.UPDATE || e.Object.Object.GetLabels()["v"] != fmt.Sprint(i-2):
			t.Fatalf("event %d is %+v", i, e)
		case i == 2*lookahead+1:
			return
		}
	}
	t.Error("events are missing")
}

func TestTheNodeIsWatched(t *testing.T) {
	node := func(v string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"v": v}}}
	}
	j := newJournal(journal.Options{Node: node("0"), MaxUpdates: 3})
	c := j.objects(t, ObjectsOptions{Options: Options{scope: j.red(t)}, Kind: journal.Nodes})
	j.expect(t, c, "ADD node1@0=0, BOOKMARK@0")
	j.PutNode(node("1"))
	j.put(config.ADD, "a/x=red")
	j.expect(t, c, "UPDATE node1@1=1, BOOKMARK@3") // all sources are known now
	for i := range 4 {
		j.PutNode(node(fmt.Sprint(i + 2)))
	}
	for _, gone := range []*Cursor{c, j.objects(t, ObjectsOptions{Kind: journal.Nodes, Since: new(j.first)})} {
		_, err := gone.Next(t.Context())
		if _, ok := errors.AsType[*journal.CompactedError](err); !ok {
			t.Errorf("a subscriber that is behind gets %v", err)
		}
	}
}

// A client that resumes at any event, a random number of times, has in the end what a list
// has.
func TestObjectsAreResumedAnywhere(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		j := newJournal(journal.Options{})
		var sees *Scope
		if seed%2 == 0 {
			sees = j.red(t)
		}
		read := func(has map[string]string, since *int64, cut bool) *int64 {
			cursor := Objects(j.Journal, ObjectsOptions{Options: Options{scope: sees}, Kind: journal.Namespaces, Since: since})
			defer cursor.Close()
			events := available(t, cursor)
			if cut && len(events) > 0 {
				events = events[:1+r.IntN(len(events))]
			}
			for _, e := range events {
				if since = new(e.Revision); e.Object != nil {
					has[e.Object.Object.GetName()] = e.Object.Object.GetLabels()["v"]
				}
				if e.Op == config.REMOVE {
					delete(has, e.Object.Object.GetName())
				}
			}
			return since
		}
		has, want := make(map[string]string), make(map[string]string)
		var since *int64
		for range 60 {
			for range r.IntN(4) {
				j.randomChange(r)
			}
			since = read(has, since, true)
		}
		read(has, since, false)
		read(want, nil, false)
		if fmt.Sprint(has) != fmt.Sprint(want) {
			t.Fatalf("seed %d: the client has %v, want %v", seed, has, want)
		}
	}
}

// randomChange changes some pods in one set, or the metadata of a namespace.
func (j *testJournal) randomChange(r *rand.Rand) {
	namespace := fmt.Sprintf("ns%d", r.IntN(4))
	if r.IntN(4) == 0 {
		j.meta(namespace, fmt.Sprint(r.IntN(3)))
		return
	}
	add, remove := config.PodUpdate{Op: config.ADD, Source: "file"}, config.PodUpdate{Op: config.REMOVE, Source: "file", More: true}
	for range 1 + r.IntN(3) {
		p := pod(fmt.Sprintf("p%d=%s", r.IntN(2), []string{"red", "blue"}[r.IntN(2)]))
		p.Namespace = fmt.Sprintf("ns%d", r.IntN(4))
		p.UID = types.UID(fmt.Sprintf("%s/%s/%d", p.Namespace, p.Name, r.IntN(2)))
		if old := j.ByName(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}); old != nil && r.IntN(2) == 0 {
			remove.Pods = append(remove.Pods, old.Object)
		} else {
			add.Pods = append(add.Pods, p)
		}
	}
	j.Append(remove)
	j.Append(add)
}

// When the rules change, a subscriber that sees something else lists again. The images on the node
// tell of pods, so they are only for those who see everything.
func TestObjectsWhenRulesAreReplaced(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: v1.NodeStatus{
		NodeInfo: v1.NodeSystemInfo{KernelVersion: "7"}, Images: []v1.ContainerImage{{Names: []string{"canary"}}},
	}}
	j := newJournal(journal.Options{Node: node})
	j.put(config.ADD, "a/x=red")
	g := j.gate(rule(t, access.Full, "image=red"))
	c, nodes := scopeOf(t, g).WatchObjects(ObjectsOptions{Kind: journal.Namespaces}), scopeOf(t, g).WatchObjects(ObjectsOptions{Kind: journal.Nodes})
	defer c.Close()
	defer nodes.Close()
	j.expect(t, c, "ADD a@1, BOOKMARK@2")
	listed, _, err := scopeOf(t, g).Objects(journal.Nodes, 0)
	if err != nil {
		t.Fatal(err)
	}
	events := available(t, nodes)
	for _, o := range []*journal.Object{listed[0], events[0].Object, scopeOf(t, g).Object(journal.Nodes, "node1")} {
		if n, ok := o.Object.(*v1.Node); !ok || n.Status.Images != nil || n.Status.NodeInfo.KernelVersion != "7" {
			t.Errorf("%+v", o.Object)
		}
	}
	g.SetPolicy(access.NewPolicy([]access.Rule{{Users: []string{"other"}}, rule(t, access.Full, "image=red")}))
	j.expect(t, c, "")
	g.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Full, "image=blue")}))
	for _, cursor := range []*Cursor{c, scopeOf(t, g).WatchObjects(ObjectsOptions{Kind: journal.Namespaces, Since: new(j.first + 1)})} {
		_, err := cursor.Next(t.Context())
		cursor.Close()
		if _, compacted := errors.AsType[*journal.CompactedError](err); !compacted {
			t.Errorf("%v", err)
		}
	}
	if namespaces, _, err := scopeOf(t, g).Objects(journal.Namespaces, 0); err != nil || len(namespaces) != 0 {
		t.Errorf("%v, %v", namespaces, err)
	}
}
