package daemon

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// rules returns the access rules, which are valid.
func (c *Config) rules() []access.Rule {
	rules := make([]access.Rule, len(c.Access))
	for i := range c.Access {
		rules[i] = toRule(&c.Access[i], new(faults), "")
	}
	return rules
}

// toRule returns a rule, without what is faulty.
func toRule(in *v1alpha1.AccessRule, found *faults, path FieldName) access.Rule {
	view, err := access.ParseLevel(in.View)
	if err != nil {
		found.add(path+".view", "%w", err)
	}
	rule := access.Rule{
		Users: in.Users, Groups: in.Groups, UIDs: in.UIDs, GIDs: in.GIDs,
		AuthenticatedUsers: in.AuthenticatedUsers, AuthenticatedGroups: in.AuthenticatedGroups,
		Sources: in.Sources, Namespaces: in.Namespaces, View: view, Annotations: in.Annotations,
	}
	if in.LabelSelector != "" {
		if rule.LabelSelector, err = labels.Parse(in.LabelSelector); err != nil {
			found.add(path+".labelSelector", "%w", err)
		}
	}
	return rule
}

// validateAccess checks Access.
func (c *Config) validateAccess(found *faults) {
	if n := len(c.Access); n > access.MaxRules {
		found.add("access", "%d rules are too many: expected at most %d", n, access.MaxRules)
	}
	rules := make([]access.Rule, len(c.Access))
	for i := range c.Access {
		rules[i] = toRule(&c.Access[i], found, indexed("access", i))
	}
	for _, f := range access.Validate(rules, checkSource) {
		found.add(indexed("access", f.Rule)+FieldName("."+f.Field), "%w", f.Err)
	}
}

// indexed returns the name of an item of a list.
func indexed(list string, i int) FieldName { return FieldName(fmt.Sprintf("%s[%d]", list, i)) }

// checkSource returns an error if no source can have the name.
func checkSource(name string) error {
	if name == config.AllSource {
		return errors.New("leave sources out to select all")
	}
	_, err := config.ParseSource(name)
	return err
}
