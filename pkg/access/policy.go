package access

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// Policy is a list of rules. It is immutable and safe for concurrent use. A nil Policy has no
// rules: everything is shown.
type Policy struct {
	rules []Rule
	// named is true if a rule names a user or group of this machine. separate is true if a rule names an
	// authenticated user or group.
	named, separate bool
	names           Names

	mu     sync.Mutex
	grants map[string]*Grant // by the matching rules
}

// maxGrants is the maximum number of cached grants.
const maxGrants = 1024

// NewPolicy returns the policy of rules that Validate accepts; nil if there are none.
func NewPolicy(rules []Rule) *Policy { return NewPolicyWithNames(rules, system) }

// NewPolicyWithNames is NewPolicy with names from another source than the system.
func NewPolicyWithNames(rules []Rule, names Names) *Policy {
	if len(rules) == 0 {
		return nil
	}
	p := &Policy{rules: slices.Clone(rules), names: names, grants: make(map[string]*Grant)}
	for i := range rules {
		p.named = p.named || len(rules[i].Users)+len(rules[i].Groups) > 0
		p.separate = p.separate || len(rules[i].AuthenticatedUsers)+len(rules[i].AuthenticatedGroups) > 0
	}
	return p
}

// For returns the grant of a subject. It is nil if the subject sees all of every pod. With an
// error, which is ErrNames, the grant shows nothing: a name that a rule needs can't be read.
func (p *Policy) For(s Subject) (*Grant, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // nil is the grant for everything
	}
	s, err := p.Named(s)
	if err != nil {
		return newGrant(nil, nil), fmt.Errorf("%w of %v: %w", ErrNames, &s, err)
	}
	matching := make([]byte, len(p.rules))
	for i := range p.rules {
		switch r := &p.rules[i]; {
		case r.matches(&s):
			matching[i] = applies
		case s.Authenticated && !p.separate && r.names(s.User, s.Groups):
			matching[i] = hides
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	grant, known := p.grants[string(matching)]
	if !known {
		grant = newGrant(p.rules, matching)
		if len(p.grants) < maxGrants {
			p.grants[string(matching)] = grant
		}
	}
	return grant, nil
}

// Named returns the client process of a unix socket with the names of its user and groups, if
// a rule needs them.
func (p *Policy) Named(s Subject) (Subject, error) {
	if p == nil || !p.named || s.UID == nil || s.User != "" {
		return s, nil
	}
	name, err := p.names.User(*s.UID)
	if err != nil {
		return s, err
	}
	s.User, s.Groups = name, nil
	for _, gid := range s.GIDs {
		name, err := p.names.Group(gid)
		if err != nil {
			return s, err
		}
		if name != "" {
			s.Groups = append(s.Groups, name)
		}
	}
	return s, nil
}

// What a rule does for a subject.
const (
	applies = 1
	// hides is for an authenticated subject with the name of a user or group of this machine. Earlier
	// versions applied the rule to both. If the rule did not match any more, a later rule could show more.
	hides = 2
)

// NamesAuthenticated reports whether the rules distinguish authenticated users from users of this machine.
// If the rules have only names of this machine, a rule hides its pods from authenticated users with these
// names.
func (p *Policy) NamesAuthenticated() bool { return p == nil || p.separate || !p.named }

// matches reports whether the rule is for the subject.
func (r *Rule) matches(s *Subject) bool {
	switch {
	case len(r.Users)+len(r.UIDs)+len(r.Groups)+len(r.GIDs)+len(r.AuthenticatedUsers)+len(r.AuthenticatedGroups) == 0:
		return true
	case s.Authenticated:
		return overlap(r.AuthenticatedUsers, []string{s.User}) || overlap(r.AuthenticatedGroups, s.Groups)
	case s.UID != nil && slices.Contains(r.UIDs, *s.UID):
		return true
	}
	return r.names(s.User, s.Groups) || overlap(r.GIDs, s.GIDs)
}

// names reports whether the rule has the name of the user or of one of the groups.
func (r *Rule) names(user string, groups []string) bool {
	return user != "" && slices.Contains(r.Users, user) || overlap(r.Groups, groups)
}

func overlap[T comparable](a, b []T) bool {
	return slices.ContainsFunc(b, func(x T) bool { return slices.Contains(a, x) })
}

// key is the part of the rule that concerns pods, as text.
func (r *Rule) key() string {
	selector := ""
	if r.restrictsLabels() {
		selector = "=" + r.LabelSelector.String() // the text of a selector that matches nothing is empty
	}
	return fmt.Sprintf("%q %q %q %v %q", sortedSet(r.Sources), sortedSet(r.Namespaces), selector, r.View, sortedSet(r.annotations()))
}

func (r *Rule) restrictsLabels() bool { return r.LabelSelector != nil && !r.LabelSelector.Empty() }

// restricts reports whether the rule is for some pods only.
func (r *Rule) restricts() bool {
	return len(r.Sources)+len(r.Namespaces) > 0 || r.restrictsLabels()
}

// annotations returns the keys of the annotations that the rule keeps.
func (r *Rule) annotations() []string {
	if r.View != Redacted {
		return nil
	}
	return r.Annotations
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// keyOf joins the keys of rules.
func keyOf(rules []Rule) string {
	keys := make([]string, len(rules))
	for i := range rules {
		keys[i] = rules[i].key()
	}
	return strings.Join(keys, "\n")
}

// Fingerprint identifies the rules; it is empty for a nil Policy.
func (p *Policy) Fingerprint() string {
	if p == nil {
		return ""
	}
	hash := sha256.New()
	for i := range p.rules {
		r := &p.rules[i]
		fmt.Fprintf(hash, "%q %q %d %d %s\n", sortedSet(r.Users), sortedSet(r.Groups), r.UIDs, r.GIDs, r.key())
		if len(r.Users)+len(r.Groups)+len(r.AuthenticatedUsers)+len(r.AuthenticatedGroups) > 0 { // not as in versions that did not tell them apart
			fmt.Fprintf(hash, "authenticated %q %q\n", sortedSet(r.AuthenticatedUsers), sortedSet(r.AuthenticatedGroups))
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// MaxRules is the maximum number of rules.
const MaxRules = 1000

// Fault is a fault of a rule.
type Fault struct {
	// Rule is the index of the rule. Field is its field in the configuration file, with
	// the index of an item: namespaces[1].
	Rule  int
	Field string
	Err   error
}

// Validate returns every fault of the rules. checkSource returns an error if no source can have
// a name.
func Validate(rules []Rule, checkSource func(string) error) (found []Fault) {
	for i := range rules {
		for _, f := range rules[i].faults(checkSource) {
			f.Rule = i
			found = append(found, f)
		}
	}
	return found
}

func (r *Rule) faults(checkSource func(string) error) (found []Fault) {
	check := func(field string, values []string, fault func(string) error) {
		for i, value := range values {
			err := fault(value)
			if value == "" {
				err = errors.New("empty")
			}
			if err != nil {
				found = append(found, Fault{Field: fmt.Sprintf("%s[%d]", field, i), Err: err})
			}
		}
	}
	// No name in /etc/passwd or /etc/group has a colon.
	local := func(field string) func(string) error {
		return func(name string) error {
			if !strings.Contains(name, ":") {
				return nil
			}
			return fmt.Errorf("%q has a colon, so no user or group of this machine has this name: put names of certificates and tokens into %s", name, field)
		}
	}
	anything := func(string) error { return nil }
	check("users", r.Users, local("authenticatedUsers"))
	check("groups", r.Groups, local("authenticatedGroups"))
	check("authenticatedUsers", r.AuthenticatedUsers, anything)
	check("authenticatedGroups", r.AuthenticatedGroups, anything)
	check("sources", r.Sources, checkSource)
	check("namespaces", r.Namespaces, func(name string) error { return problem(name, "namespace", validation.IsDNS1123Label(name)) })
	check("annotations", r.Annotations, func(key string) error {
		return problem(key, "annotation key", validation.IsQualifiedName(strings.ToLower(key)))
	})
	if !r.View.valid() {
		found = append(found, Fault{Field: "view", Err: fmt.Errorf("%v: %s", r.View, expectedLevels)})
	}
	if len(r.Annotations) > 0 && r.View != Redacted {
		found = append(found, Fault{Field: "annotations", Err: fmt.Errorf("only for a rule with the view %v, not %v: remove them or change the view", Redacted, r.View)})
	}
	return found
}

func problem(value, what string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%q is not a valid %s: %s", value, what, printable.Rule(problems[0]))
}
