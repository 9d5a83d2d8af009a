package access

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pod(namespace, app string) *v1.Pod {
	return podtest.Pod("p", podtest.In(namespace), podtest.Label("app", app))
}

func grantOf(t *testing.T, rules []Rule, s Subject) *Grant {
	t.Helper()
	g, err := NewPolicy(rules).For(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var someone = Subject{User: "someone"}

// The first rule whose subject and selectors match decides.
func TestFirstMatchingRule(t *testing.T) {
	rules := []Rule{
		{Users: []string{"other"}, View: Full},
		{Users: []string{"someone"}, Namespaces: []string{"monitoring"}, LabelSelector: selector(t, "app=web"), View: Redacted},
		{Groups: []string{"agents"}, Sources: []string{"file"}, View: Full},
		{Namespaces: []string{"monitoring"}, View: Metadata},
	}
	member := Subject{User: "someone", Groups: []string{"agents"}}
	for _, c := range []struct {
		s           Subject
		source      string
		pod         *v1.Pod
		want        Level
		description string
	}{
		{someone, "api", pod("monitoring", "web"), Redacted, "its own rule"},
		{someone, "api", pod("monitoring", "db"), Metadata, "another label"},
		{someone, "file", pod("default", "web"), None, "no rule"},
		{member, "file", pod("default", "web"), Full, "a rule of a group"},
		{member, "file", pod("monitoring", "web"), Redacted, "an earlier rule shows less"},
		{member, "api", pod("default", "web"), None, "another source"},
		{Subject{}, "api", pod("monitoring", "web"), Metadata, "nobody, a rule for all"},
		{Subject{User: "other"}, "api", pod("default", "x"), Full, "everything"},
	} {
		t.Run(c.description, func(t *testing.T) {
			if got := grantOf(t, rules, c.s).Of(c.source, c.pod).Level(); got != c.want {
				t.Errorf("%s: %v, want %v", c.description, got, c.want)
			}
		})
	}
}

func TestSubjects(t *testing.T) {
	uid := func(n uint32) *uint32 { return &n }
	for name, c := range map[string]struct {
		rule Rule
		s    Subject
		want bool
	}{
		"all":                    {Rule{}, Subject{}, true},
		"unknown user":           {Rule{UIDs: []uint32{0}}, Subject{}, false}, // over TCP, and with an unknown user
		"root":                   {Rule{UIDs: []uint32{0}}, Subject{UID: uid(0)}, true},
		"root is not special":    {Rule{UIDs: []uint32{1}}, Subject{UID: uid(0)}, false}, // root is not special
		"no name":                {Rule{Users: []string{""}}, Subject{}, false},
		"one of two groups":      {Rule{GIDs: []uint32{7}}, Subject{UID: uid(1), GIDs: []uint32{1, 7}}, true},
		"not the user":           {Rule{Users: []string{"x"}, GIDs: []uint32{7}}, Subject{UID: uid(1), GIDs: []uint32{7}}, true},
		"an authenticated group": {Rule{AuthenticatedGroups: []string{"system:masters"}}, Subject{Authenticated: true, User: "u", Groups: []string{"system:masters"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.rule.matches(&c.s); got != c.want {
				t.Errorf("%+v matches %+v: %v", c.rule, c.s, got)
			}
		})
	}
}

// Without rules, and by a rule that shows everything to all, there is nothing to check. Rules that
// match nobody show nothing.
func TestEverythingAndNothing(t *testing.T) {
	if NewPolicy(nil) != nil {
		t.Error("without rules there is a policy")
	}
	if g := grantOf(t, nil, Subject{}); g != nil || g.Nothing() || g.Of("file", pod("a", "b")).Level() != Full {
		t.Error("without rules, not everything is shown")
	}
	if g := grantOf(t, []Rule{{Users: []string{"someone"}, View: Full}, {View: None}}, someone); g != nil {
		t.Error("a rule that shows everything is not the grant for everything")
	}
	for _, rules := range [][]Rule{
		{{Users: []string{"other"}, View: Full}},
		{{Namespaces: []string{"a"}, View: None}, {View: None}, {View: Full}},
	} {
		if g := grantOf(t, rules, someone); !g.Nothing() || g.Of("file", pod("a", "b")).Level() != None {
			t.Errorf("%v shows something", rules)
		}
	}
}

// Grants that give the same have the same key, also those of different policies.
func TestKeys(t *testing.T) {
	rules := []Rule{{Users: []string{"someone"}, Namespaces: []string{"a", "b"}, View: Redacted, Annotations: []string{"x", "y"}}}
	same := []Rule{
		{Users: []string{"other"}, View: Full},
		{GIDs: []uint32{5}, Users: []string{"someone"}, Namespaces: []string{"b", "a", "a"}, View: Redacted, Annotations: []string{"y", "x"}},
		{Namespaces: []string{"z"}, View: None},
	}
	key := grantOf(t, rules, someone).Key()
	if key != grantOf(t, same, someone).Key() {
		t.Error("the keys differ")
	}
	if f := grantOf(t, rules, someone).Of("file", pod("a", "")); f != grantOf(t, same, someone).Of("api", pod("b", "")) {
		t.Error("the forms differ")
	}
	for name, change := range map[string]func(*Rule){
		"view":        func(r *Rule) { r.View, r.Annotations = Metadata, nil },
		"annotations": func(r *Rule) { r.Annotations = []string{"x"} },
		"namespaces":  func(r *Rule) { r.Namespaces = nil },
		"sources":     func(r *Rule) { r.Sources = []string{"file"} },
		"labels":      func(r *Rule) { r.LabelSelector = labels.Nothing() },
	} {
		t.Run(name, func(t *testing.T) {
			other := rules[0]
			change(&other)
			if key == grantOf(t, []Rule{other}, someone).Key() {
				t.Errorf("another %s has the same key", name)
			}
		})
	}
	if key == (Key{}) || grantOf(t, []Rule{{View: None}}, someone).Key() == (Key{}) {
		t.Error("a grant has the key of everything")
	}
}

func TestFingerprints(t *testing.T) {
	seen := map[string]bool{(*Policy)(nil).Fingerprint(): true}
	for _, rules := range [][]Rule{
		{{View: Full}}, {{View: Redacted}}, {{Users: []string{"a"}, View: Full}}, {{UIDs: []uint32{1}, View: Full}}, {{GIDs: []uint32{1}, View: Full}},
		{{View: Full}, {View: None}}, {{Namespaces: []string{"a"}, View: Full}},
	} {
		f := NewPolicy(rules).Fingerprint()
		if seen[f] || f != NewPolicy(rules).Fingerprint() {
			t.Errorf("%v: %s", rules, f)
		}
		seen[f] = true
	}
}

// Of a pod that is in no source, neither the source nor the labels are known. It gets the least
// that it could get.
func TestUnknownPods(t *testing.T) {
	for name, c := range map[string]struct {
		rules []Rule
		want  Level
	}{
		"namespace":                {[]Rule{{Namespaces: []string{"a"}, View: Metadata}}, Metadata},
		"other namespace":          {[]Rule{{Namespaces: []string{"b"}, View: Metadata}}, None},
		"nothing by label":         {[]Rule{{Namespaces: []string{"a"}, LabelSelector: selector(t, "secret"), View: None}, {View: Full}}, None},
		"other namespace by label": {[]Rule{{Namespaces: []string{"b"}, LabelSelector: selector(t, "secret"), View: None}, {View: Redacted}}, Redacted},
		"source first":             {[]Rule{{Sources: []string{"file"}, View: Metadata}, {View: Full}}, Metadata},
		"source":                   {[]Rule{{Sources: []string{"file"}, View: Full}}, None},
		"label first":              {[]Rule{{LabelSelector: selector(t, "x"), View: Redacted}, {Namespaces: []string{"a"}, View: Full}}, Redacted},
	} {
		t.Run(name, func(t *testing.T) {
			if got := grantOf(t, c.rules, someone).Of("", pod("a", "")).Level(); got != c.want {
				t.Errorf("%v: %v, want %v", c.rules, got, c.want)
			}
		})
	}
	g := grantOf(t, []Rule{{Sources: []string{"file"}, View: Full}, {Sources: []string{"api"}, Namespaces: []string{"a"}, View: Full}}, someone)
	if g.AtLeast("file", "").Level() != Full || g.AtLeast("api", "").Level() != None || g.AtLeast("api", "a").Level() != Full {
		t.Error("the least of a source is wrong")
	}
}

// fakeNames has names, and fails for UID 13.
type fakeNames struct{ asked int }

var errNoPasswd = errors.New("no passwd")

func (f *fakeNames) User(uid uint32) (string, error) {
	f.asked++
	if uid == 13 {
		return "", errNoPasswd
	}
	return map[uint32]string{1000: "someone"}[uid], nil
}

func (f *fakeNames) Group(gid uint32) (string, error) {
	f.asked++
	return map[uint32]string{7: "agents"}[gid], nil
}

// The names of a client process are read only if a rule has a name. If they can't be read,
// nothing is shown: a rule that hides something might be for that name.
func TestNamesOfProcesses(t *testing.T) {
	process := func(uid uint32, gids ...uint32) Subject { return Subject{UID: &uid, GIDs: gids} }
	numbers, names := &fakeNames{}, &fakeNames{}
	p := NewPolicyWithNames([]Rule{{UIDs: []uint32{1000}, View: Metadata}}, numbers)
	if g, err := p.For(process(1000)); err != nil || g.Nothing() || numbers.asked != 0 {
		t.Errorf("%v, %d names were read", err, numbers.asked)
	}
	p = NewPolicyWithNames([]Rule{{Users: []string{"someone"}, View: None}, {Groups: []string{"agents"}, View: Redacted}, {UIDs: []uint32{5, 13}, View: Metadata}}, names)
	for name, c := range map[string]struct {
		s    Subject
		want Level
	}{
		"group of a user": {process(1000, 7), None}, "group of a process": {process(1001, 1, 7), Redacted}, "user": {process(5), Metadata}, "other user": {process(6), None},
		"authenticated user": {Subject{User: "someone"}, None}, "authenticated group": {Subject{User: "u", Groups: []string{"agents"}}, Redacted},
	} {
		t.Run(name, func(t *testing.T) {
			if g, err := p.For(c.s); err != nil || g.Of("file", pod("a", "")).Level() != c.want {
				t.Errorf("%v: %v, %v", c.s, g, err)
			}
		})
	}
	if g, err := p.For(process(13)); !errors.Is(err, errNoPasswd) || !g.Nothing() {
		t.Errorf("with an error: %v, %v", g, err)
	}
}

func TestSystemNames(t *testing.T) {
	for range 2 {
		if name, err := system.User(0); name != "root" || err != nil {
			t.Errorf("UID 0 is %q, %v", name, err)
		}
		if name, err := system.Group(0); name != "root" || err != nil {
			t.Errorf("GID 0 is %q, %v", name, err)
		}
		if name, err := system.User(4294960000); name != "" || err != nil {
			t.Errorf("an unknown UID is %q, %v", name, err)
		}
	}
}

func TestValidate(t *testing.T) {
	checkSource := func(name string) error {
		if name != "file" {
			return errors.New("unknown source")
		}
		return nil
	}
	valid := []Rule{{Users: []string{"x"}, Sources: []string{"file"}, Namespaces: []string{"a"}, View: Redacted, Annotations: []string{"example.com/a"}}, {}}
	if found := Validate(valid, checkSource); found != nil {
		t.Errorf("%v", found)
	}
	var got []string
	for _, f := range Validate([]Rule{{}, {
		Users: []string{""}, Groups: []string{"g", "", "system:nodes"}, Sources: []string{"disk"}, Namespaces: []string{"a", "A/b"},
		View: 9, Annotations: []string{"a b"},
	}}, checkSource) {
		if f.Rule != 1 {
			t.Errorf("%v is of rule 1", f)
		}
		got = append(got, f.Field+": "+f.Err.Error())
	}
	for i, want := range []string{
		"users[0]: empty", "groups[1]: empty", `groups[2]: "system:nodes" has a colon, so no user or group of this machine has this name: put names of certificates and tokens into authenticatedGroups`, "sources[0]: unknown source", `namespaces[1]: "A/b" is not a valid namespace: `,
		`annotations[0]: "a b" is not a valid annotation key: `, "view: Level(9): expected full, redacted, metadata or none", "annotations: only for a rule with the view redacted, not Level(9)",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("fault %d of %q: want %s", i, got, want)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for _, l := range []Level{None, Metadata, Redacted, Full} {
		if got, err := ParseLevel(l.String()); got != l || err != nil {
			t.Errorf("%v: %v, %v", l, got, err)
		}
	}
	if _, err := ParseLevel("all"); err == nil || err.Error() != `unknown view "all": expected full, redacted, metadata or none` {
		t.Error(err)
	}
}
