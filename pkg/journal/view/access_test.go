package view

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

var agent = access.Subject{User: "agent"}

// rule has a view of the pods whose image matches the selector.
func rule(t *testing.T, view access.Level, selector string) access.Rule {
	t.Helper()
	s, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return access.Rule{Users: []string{"agent"}, LabelSelector: s, View: view}
}

func (j *testJournal) gate(rules ...access.Rule) *Gate {
	return NewGate(j.Journal, access.NewPolicy(rules))
}

func scopeOf(t *testing.T, g *Gate) *Scope {
	t.Helper()
	s, err := g.Scope(agent)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stateOf(t *testing.T, s *Scope, selector Selector) journal.State {
	t.Helper()
	state, err := s.State(selector, nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// through starts a subscription of the agent.
func (j *testJournal) through(t *testing.T, g *Gate, opts StreamOptions) *testCursor {
	t.Helper()
	c := &testCursor{j, scopeOf(t, g).Stream(opts)}
	t.Cleanup(c.Close)
	return c
}

// taken returns all available frames in short.
func (c *testCursor) taken(t *testing.T) string {
	t.Helper()
	return show(c.of, c.all(t))
}

// all returns all frames, also those after a change of the access rules.
func (c *testCursor) all(t *testing.T) []*Frame {
	t.Helper()
	var frames []*Frame
	for {
		changed, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, c.out...)
		if len(c.out) == 0 && changed != nil {
			return frames
		}
	}
}

func want(t *testing.T, got string, lines ...string) {
	t.Helper()
	if want := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A pod that comes to be shown is an ADD, one that comes to be hidden a REMOVE, and nothing is said
// of others.
func TestRulesSelectPods(t *testing.T) {
	j := newJournal(journal.Options{})
	g := j.gate(rule(t, access.Full, "image=seen"))
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	c := j.through(t, g, StreamOptions{})
	want(t, c.taken(t), "- ADD a=seen", "3 BOOKMARK synced ready")
	appendSet(j, update(config.ADD, "c=hidden"))
	appendSet(j, update(config.UPDATE, "a=hidden"), update(config.UPDATE, "b=seen"))
	appendSet(j, update(config.UPDATE, "a=other"))
	appendSet(j, update(config.REMOVE, "c=hidden"))
	appendSet(j, update(config.SYNC, "b=seen", "a=other"))
	want(t, c.taken(t), "5 REMOVE a=seen", "6 ADD b=seen")
}

// withSecret returns an update of a pod with the value of an environment variable.
func withSecret(op config.PodOperation, content, secret string) config.PodUpdate {
	u := update(op, content)
	u.Pods[0].Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: secret}}
	u.Pods[0].ResourceVersion = secret
	return u
}

// A change of what is hidden sends nothing, in all views.
func TestHiddenChangesSendNothing(t *testing.T) {
	for _, level := range []access.Level{access.Redacted, access.Metadata} {
		j := newJournal(journal.Options{})
		g := j.gate(access.Rule{View: level})
		appendSet(j, withSecret(config.ADD, "a=1", "one"))
		cursors := map[string]*Cursor{
			"incremental": scopeOf(t, g).Stream(StreamOptions{}),
			"snapshot":    scopeOf(t, g).Stream(StreamOptions{Mode: SnapshotMode}),
			"both":        scopeOf(t, g).Stream(StreamOptions{Mode: SnapshotAndUpdatesMode}),
			"names":       scopeOf(t, g).Names(NamesOptions{}),
			"uids":        scopeOf(t, g).UIDs(Options{}),
		}
		for name, c := range cursors {
			test := &testCursor{j, c}
			test.taken(t)
			appendSet(j, withSecret(config.UPDATE, "a=1", "two "+name))
			if got := test.taken(t); got != "" {
				t.Errorf("%v, %s: got %s", level, name, got)
			}
			appendSet(j, withSecret(config.UPDATE, "a=2", "three"))
			if got := test.taken(t); !strings.Contains(got, "a=2") {
				t.Errorf("%v, %s: a change of a label: got %s", level, name, got)
			}
			appendSet(j, withSecret(config.UPDATE, "a=1", "four"))
			test.taken(t)
			c.Close()
		}
	}
}

// The pods are in the form that the rules give. All who get the form share it, and their frames.
func TestFormsAreShared(t *testing.T) {
	j := newJournal(journal.Options{})
	g := j.gate(access.Rule{Users: []string{"agent"}, View: access.Redacted}, access.Rule{View: access.Redacted})
	other, err := g.Scope(access.Subject{User: "other"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := scopeOf(t, g).Stream(StreamOptions{}), other.Stream(StreamOptions{})
	defer a.Close()
	defer b.Close()
	first, second := &testCursor{j, a}, &testCursor{j, b}
	first.taken(t)
	second.taken(t)
	appendSet(j, withSecret(config.ADD, "a=1", "secret"))
	one, two := next(t, first), next(t, second)
	if one[0].Pods[0].Object.Spec.Containers[0].Env[0].Value != "" || one[0].Pods[0].Object.Name != "a" {
		t.Errorf("%v", one[0].Pods[0].Object)
	}
	if one[0].Pods[0] != two[0].Pods[0] {
		t.Error("the form was made twice")
	}
	listed := stateOf(t, scopeOf(t, g), Selector{}).Pods[0]
	if listed.Memo != one[0].Pods[0].Memo {
		t.Error("a list has a form of its own")
	}
	if j.State().Pods[0].Object.Spec.Containers[0].Env[0].Value != "secret" {
		t.Error("the pod itself was changed")
	}
}

// What is hidden can't be selected by.
func TestHiddenFieldsAreNoOracle(t *testing.T) {
	j := newJournal(journal.Options{})
	g := j.gate(access.Rule{View: access.Metadata})
	appendSet(j, config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{func() *v1.Pod {
		p := pod("a=1")
		p.Spec.ServiceAccountName = "admin"
		return p
	}()}})
	fields, err := podfields.ParseSelector("spec.serviceAccountName=admin")
	if err != nil {
		t.Fatal(err)
	}
	c := j.through(t, g, StreamOptions{Options: Options{Selector: Selector{Fields: fields}}})
	want(t, c.taken(t), "2 BOOKMARK synced ready")
	if pods := stateOf(t, scopeOf(t, g), Selector{Fields: fields}).Pods; len(pods) != 0 {
		t.Errorf("%v", pods)
	}
}

// Lists and single pods are what the stream has.
func TestScopeReads(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	s := scopeOf(t, j.gate(rule(t, access.Metadata, "image=seen")))
	named, _, err := s.Named(0, Selector{})
	if err != nil || len(named) != 1 || named[0].Object.Name != "a" || len(named[0].Object.Spec.Containers[0].Image) > 0 {
		t.Errorf("%v, %v", named, err)
	}
	byUID, err := s.ByUID(Selector{})
	if err != nil || len(byUID) != 1 || byUID[0].Object.Name != "a" {
		t.Errorf("%v, %v", byUID, err)
	}
	name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: n} }
	for pod, sees := range map[string]bool{"a": true, "b": false, "c": false} {
		t.Run(pod, func(t *testing.T) {
			if (s.WithName(name(pod)) != nil) != sees || (s.WithUID(types.UID(pod), Selector{}) != nil) != sees || s.Sees(name(pod)) != sees ||
				s.SeesRuntimePod(types.UID(pod), "default") != sees {
				t.Errorf("pod %s is wrong", pod)
			}
		})
	}
}

// When the rules are replaced, a stream that sees something else gets a reset and what it sees now.
// One that sees the same notices nothing.
func TestRulesAreReplaced(t *testing.T) {
	j := newJournal(journal.Options{})
	seen := rule(t, access.Full, "image=seen")
	g := j.gate(seen)
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	c := j.through(t, g, StreamOptions{})
	c.taken(t)
	g.SetPolicy(access.NewPolicy([]access.Rule{{Users: []string{"other"}, View: access.Full}, seen}))
	appendSet(j, update(config.UPDATE, "a=seen"))
	want(t, c.taken(t), "5 UPDATE a=seen")
	g.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Full, "image=hidden")}))
	frames := next(t, c)
	if !frames[0].Reset || frames[0].Message != "the access rules changed" {
		t.Errorf("%+v", frames[0])
	}
	want(t, show(j, frames), "- BOOKMARK reset ready", "- ADD b=hidden", "6 BOOKMARK synced ready")
	g.SetPolicy(nil)
	want(t, c.taken(t), "- BOOKMARK reset ready", "- ADD a=seen b=hidden", "7 BOOKMARK synced ready")
}

// A stream that resumes from before the rules were replaced gets a reset if it sees something else.
func TestResumeAfterRulesWereReplaced(t *testing.T) {
	j := newJournal(journal.Options{})
	seen, hidden := rule(t, access.Full, "image=seen"), rule(t, access.Full, "image=hidden")
	g := j.gate(seen)
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	before := j.Revision()
	g.SetPolicy(access.NewPolicy([]access.Rule{hidden}))
	between := j.Revision()
	resume := func(since int64) string { return j.through(t, g, StreamOptions{Since: &since}).taken(t) }
	want(t, resume(before), "- BOOKMARK reset ready", "- ADD b=hidden", "4 BOOKMARK synced ready")
	want(t, resume(between))
	g.SetPolicy(access.NewPolicy([]access.Rule{seen}))
	want(t, resume(between), "- BOOKMARK reset ready", "- ADD a=seen", "5 BOOKMARK synced ready")
	want(t, resume(before), "- BOOKMARK reset ready", "- ADD a=seen", "5 BOOKMARK synced ready")
	for range maxPast + 1 {
		g.SetPolicy(access.NewPolicy([]access.Rule{seen}))
	}
	if got := resume(between + 1); !strings.Contains(got, "reset") {
		t.Errorf("long after: %s", got)
	}
	want(t, resume(j.Revision()-1))
	c := scopeOf(t, g).Names(NamesOptions{Since: &before})
	defer c.Close()
	if _, err := c.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "the access rules changed after revision") {
		t.Errorf("a watch: %v", err)
	}
}

// If it is not known by which rules streams from before the start were served, they start again.
func TestResumeAfterUnknownRules(t *testing.T) {
	j := newJournal(journal.Options{})
	g := j.gate(rule(t, access.Full, "image=seen"))
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	before := j.Revision()
	g.Distrust(before)
	appendSet(j, update(config.ADD, "c=seen"))
	resume := func(since int64) string { return j.through(t, g, StreamOptions{Since: &since}).taken(t) }
	want(t, resume(before), "- BOOKMARK reset ready", "- ADD a=seen c=seen", "4 BOOKMARK synced ready")
	want(t, resume(j.Revision()))
}

// A client that knows what it has missed must know too that it sees other pods.
func TestNewRulesAreTheFirstReasonOfAReset(t *testing.T) {
	j := newJournal(journal.Options{MaxUpdates: 1})
	g := j.gate(rule(t, access.Full, "image=seen"))
	appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
	before := j.Revision()
	g.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Full, "image=hidden")}))
	appendSet(j, update(config.UPDATE, "a=seen"))
	appendSet(j, update(config.UPDATE, "a=seen"))
	frames := next(t, j.through(t, g, StreamOptions{Instance: j.Instance(), Since: &before}))
	if !frames[0].Reset || !strings.HasPrefix(frames[0].Message, "the access rules changed") {
		t.Errorf("%+v", frames[0])
	}
}

// A watch of names ends when its rules change. One by UID gets the difference.
func TestWatchesWhenRulesAreReplaced(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, withSecret(config.ADD, "a=seen", "x"), update(config.ADD, "b=seen"))
	g := j.gate(access.Rule{View: access.Full})
	names := scopeOf(t, g).Names(NamesOptions{})
	defer names.Close()
	uids := &testCursor{j, scopeOf(t, g).UIDs(Options{})}
	defer uids.Close()
	(&testCursor{j, names}).taken(t)
	uids.taken(t)
	onlyA := rule(t, access.Redacted, "image=seen")
	onlyA.Namespaces = []string{"default"}
	hideB := access.Rule{LabelSelector: labels.SelectorFromSet(labels.Set{"hide": "b"}), View: access.None}
	u := update(config.UPDATE, "b=seen")
	u.Pods[0].Labels["hide"] = "b"
	u.Pods[0].Annotations["canary"] = "canary"
	appendSet(j, u)
	uids.taken(t)
	g.SetPolicy(access.NewPolicy([]access.Rule{hideB, onlyA}))
	if _, err := names.Next(t.Context()); err != nil { // the update of b
		compacted, ok := errors.AsType[*journal.CompactedError](err)
		if !ok || compacted.Error() != "the access rules changed" {
			t.Error(err)
		}
	} else {
		t.Error("the watch goes on")
	}
	frames := next(t, uids)
	want(t, show(j, frames), "- UPDATE a=seen", "- REMOVE b", "5 BOOKMARK synced ready")
	if env := frames[0].Pods[0].Object.Spec.Containers[0].Env; env[0].Value != "" {
		t.Error("the pod is not redacted")
	}
	if frames[1].Pods[0].Object.Annotations["canary"] != "" {
		t.Error("the pod that is hidden now is sent whole")
	}
}

// What is read through a scope after the rules were replaced is by the new ones, also if the scope
// and the subscription are from before.
func TestScopeAfterRulesWereReplaced(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a=seen"))
	g := j.gate(access.Rule{View: access.Full})
	scope := scopeOf(t, g)
	namespaces := scope.WatchObjects(ObjectsOptions{Kind: journal.Namespaces})
	defer namespaces.Close()
	hidden := g.journal.State().Pods[0]
	if scope.See(hidden) == nil || scope.Grant() != nil || !scope.Sees(types.NamespacedName{Namespace: "default", Name: "other"}) {
		t.Error("the pod is hidden")
	}
	g.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Full, "image=hidden")}))
	if scope.See(hidden) != nil {
		t.Error("the pod is shown")
	}
	if scope.Grant().AtLeast("", "default").Level() != access.None {
		t.Error("the grant is that of the rules before")
	}
	if scope.Sees(types.NamespacedName{Namespace: "default", Name: "a"}) {
		t.Error("the name is seen")
	}
	if events, err := namespaces.Next(t.Context()); !errors.Is(err, errNewRules) {
		t.Errorf("%v, and events: %+v", err, events)
	}
}

// A change of a field that the subscriber requests is sent, whatever the field is.
func TestChangesOfRequestedFields(t *testing.T) {
	j := newJournal(journal.Options{})
	appendSet(j, update(config.ADD, "a=x"))
	for _, path := range []string{"metadata.generation", "metadata.resourceVersion", "metadata.managedFields"} {
		mask, err := podfields.ParseMask([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		c := j.watch(StreamOptions{Options: Options{Fields: mask}})
		c.drain()
		u := update(config.UPDATE, "a=x")
		u.Pods[0].Generation, u.Pods[0].ResourceVersion = j.Revision(), strconv.FormatInt(j.Revision(), 10)
		u.Pods[0].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: u.Pods[0].ResourceVersion}}
		appendSet(j, u)
		if frames := c.drain(); len(frames) != 1 || frames[0].Op != config.UPDATE {
			t.Errorf("%s: %+v", path, frames)
		}
		c.Close()
	}
}
