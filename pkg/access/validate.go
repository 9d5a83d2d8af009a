package access

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/internal/printable"
)

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
