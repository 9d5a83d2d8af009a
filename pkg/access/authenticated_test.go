package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// before is what a subject saw of a pod before rules told users of this machine from those of
// certificates and tokens: users and groups were of both.
func before(rules []Rule, s *Subject, source string, pod *v1.Pod) Form {
	for i := range rules {
		r := &rules[i]
		all := len(r.Users)+len(r.UIDs)+len(r.Groups)+len(r.GIDs) == 0
		is := slices.Contains(r.Users, s.User) || s.UID != nil && slices.Contains(r.UIDs, *s.UID) ||
			slices.ContainsFunc(s.Groups, func(g string) bool { return slices.Contains(r.Groups, g) }) ||
			slices.ContainsFunc(s.GIDs, func(g uint32) bool { return slices.Contains(r.GIDs, g) })
		if (all || is) && r.selects(source, pod.Namespace) && (r.LabelSelector == nil || r.LabelSelector.Matches(labels.Set(pod.Labels))) {
			return formOf(r.View, r.annotations())
		}
	}
	return Form{}
}

// some returns a few of the values, at random.
func some[T any](random *rand.Rand, values ...T) (chosen []T) {
	for _, v := range values {
		if random.IntN(3) == 0 {
			chosen = append(chosen, v)
		}
	}
	return chosen
}

func randomRules(random *rand.Rand) []Rule {
	rules := make([]Rule, 1+random.IntN(5))
	for i := range rules {
		rules[i] = Rule{
			Sources: some(random, "file", "api"), Namespaces: some(random, "a", "b"), View: Level(random.IntN(4)),
		}
		if random.IntN(4) > 0 {
			rules[i].Users, rules[i].Groups = some(random, "root", "alice"), some(random, "root", "cni")
			rules[i].UIDs, rules[i].GIDs = some[uint32](random, 0, 1000), some[uint32](random, 0, 7)
		}
		if rules[i].View == Redacted {
			rules[i].Annotations = some(random, "x", "y")
		}
	}
	return rules
}

// With rules that know no authenticated users, a subject of this machine sees what it saw before, and an
// authenticated one sees of each pod what it saw before, or nothing.
func TestRulesWithoutAuthenticatedUsers(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	fewer := 0
	for range 20_000 {
		rules := randomRules(random)
		s := Subject{User: []string{"root", "alice", "bob"}[random.IntN(3)], Groups: some(random, "root", "cni", "system:authenticated")}
		if s.Authenticated = random.IntN(2) == 0; !s.Authenticated {
			s.UID, s.GIDs = new([]uint32{0, 1000, 1001}[random.IntN(3)]), some[uint32](random, 0, 7, 8)
		}
		grant, err := NewPolicy(rules).For(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"file", "http", "api"} {
			for _, namespace := range []string{"a", "b", "c"} {
				p := pod(namespace, "")
				was, is := before(rules, &s, source, p), grant.Of(source, p)
				if is != was && (!s.Authenticated || is != Form{}) {
					t.Fatalf("seed %d: %+v sees of %s/%s %v, and saw %v: %+v", seed, s, source, namespace, is.Level(), was.Level(), rules)
				}
				if least := grant.AtLeast("", namespace); least.Level() > is.Level() {
					t.Fatalf("seed %d: %+v sees %v of any pod of %s, but %v of one in %s: %+v", seed, s, least.Level(), namespace, is.Level(), source, rules)
				}
				if is != was {
					fewer++
				}
			}
		}
	}
	if fewer == 0 {
		t.Error("no authenticated subject had the name of a local one")
	}
}

// Rules that know authenticated users tell them from those of this machine.
func TestAuthenticatedUsers(t *testing.T) {
	root := Subject{User: "root", UID: new(uint32(0)), Groups: []string{"root", "cni"}, GIDs: []uint32{0, 7}}
	certificate := Subject{Authenticated: true, User: "root", Groups: []string{"cni", "system:authenticated"}}
	local, authenticated := Rule{Users: []string{"root"}, View: Full}, Rule{AuthenticatedUsers: []string{"root"}, View: Metadata}
	for name, c := range map[string]struct {
		rules          []Rule
		root, verified Level
	}{
		"a rule for all others":                {[]Rule{local, {View: Redacted}}, Full, None}, // the second rule would show more than nothing
		"a rule for each":                      {[]Rule{local, authenticated}, Full, Metadata},
		"a rule for each, the other way round": {[]Rule{authenticated, local}, Full, Metadata},
		"all others redacted":                  {[]Rule{authenticated, {View: Redacted}}, Redacted, Metadata},
		"a group of the machine":               {[]Rule{{Groups: []string{"cni"}, View: Full}}, Full, None},
		"an authenticated group":               {[]Rule{{AuthenticatedGroups: []string{"cni"}, View: Full}}, None, Full},
		"IDs":                                  {[]Rule{{UIDs: []uint32{0}, GIDs: []uint32{7}, View: Full}, {View: Metadata}}, Full, Metadata},
		"a user or an authenticated group":     {[]Rule{{Users: []string{"root"}, AuthenticatedGroups: []string{"system:authenticated"}, View: Redacted}}, Redacted, Redacted},
	} {
		t.Run(name, func(t *testing.T) {
			for s, want := range map[*Subject]Level{&root: c.root, &certificate: c.verified} {
				if got := grantOf(t, c.rules, *s).Of("file", pod("a", "")).Level(); got != want {
					t.Errorf("%v sees %v, want %v, by %+v", s, got, want, c.rules)
				}
			}
		})
	}
	if NewPolicy([]Rule{local}).Fingerprint() == NewPolicy([]Rule{{Users: local.Users, AuthenticatedUsers: local.Users, View: Full}}).Fingerprint() {
		t.Error("the fingerprint ignores authenticated users")
	}
}

// The fingerprint of rules with names is not that of versions in which they were for authenticated users
// too: no stream resumes from what those served. Others keep theirs.
func TestFingerprintsOfBefore(t *testing.T) {
	for name, c := range map[string]struct {
		rule Rule
		same bool
	}{
		"all":     {Rule{View: Full}, true},
		"IDs":     {Rule{UIDs: []uint32{0}, GIDs: []uint32{7}, View: Full}, true},
		"a user":  {Rule{Users: []string{"root"}, View: Full}, false},
		"a group": {Rule{Groups: []string{"cni"}, View: Full}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &c.rule
			before := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %s\n", sortedSet(r.Users), sortedSet(r.Groups), r.UIDs, r.GIDs, r.key()))
			if same := NewPolicy([]Rule{c.rule}).Fingerprint() == hex.EncodeToString(before[:]); same != c.same {
				t.Errorf("%+v: the fingerprint is that of before: %v", c.rule, same)
			}
		})
	}
}
