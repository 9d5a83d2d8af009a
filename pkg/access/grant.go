package access

import (
	"reflect"
	"slices"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Grant is what a subject may see: the rules that apply to it. It is immutable. A nil Grant is
// for everything.
type Grant struct {
	rules []Rule
	forms []Form // of each rule
	key   unique.Handle[string]
}

// Key identifies what a grant shows. Grants with the same key show the same, even if they are of different
// policies.
type Key struct{ handle unique.Handle[string] }

// Key returns the key of the grant.
func (g *Grant) Key() Key {
	if g == nil {
		return Key{}
	}
	return Key{g.key}
}

// newGrant returns the grant of a subject. matching says for each rule whether it applies to the subject,
// or hides its pods.
func newGrant(rules []Rule, matching []byte) *Grant {
	g := new(Grant)
	for i := range rules {
		if matching[i] == 0 {
			continue
		}
		rule := rules[i]
		if matching[i] == hides {
			rule.View, rule.Annotations = None, nil
		}
		g.rules = append(g.rules, rule)
		if !rules[i].restricts() {
			break // later rules match no pod
		}
	}
	// A pod that no rule matches is hidden anyway.
	for n := len(g.rules); n > 0 && g.rules[n-1].View == None; n-- {
		g.rules = g.rules[:n-1]
	}
	if len(g.rules) == 1 && !g.rules[0].restricts() && g.rules[0].View == Full {
		return nil
	}
	g.rules = slices.Clip(g.rules)
	for i := range g.rules {
		g.forms = append(g.forms, formOf(g.rules[i].View, g.rules[i].annotations()))
	}
	g.key = unique.Make(keyOf(g.rules))
	return g
}

// Nothing reports whether the grant shows no pod at all.
func (g *Grant) Nothing() bool { return g != nil && len(g.rules) == 0 }

// Of returns the form in which a pod of a source is shown. A pod that is in no source has an
// empty source.
func (g *Grant) Of(source string, pod *v1.Pod) Form {
	switch {
	case g == nil:
		return formOf(Full, nil)
	case source == "":
		return g.AtLeast("", pod.Namespace)
	}
	for i := range g.rules {
		if r := &g.rules[i]; r.selects(source, pod.Namespace) && (!r.restrictsLabels() || r.LabelSelector.Matches(labels.Set(pod.Labels))) {
			return g.forms[i]
		}
	}
	return Form{}
}

// selects reports whether the rule is for pods of the source and namespace.
func (r *Rule) selects(source, namespace string) bool {
	return (len(r.Sources) == 0 || slices.Contains(r.Sources, source)) &&
		(len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace))
}

// AtLeast returns the least form that a pod of a source and a namespace can have. Use it for pods of which
// no more is known. If source or namespace is empty, it is not known either.
func (g *Grant) AtLeast(source, namespace string) Form {
	if g == nil {
		return formOf(Full, nil)
	}
	least := formOf(Full, nil)
	for i := range g.rules {
		r := &g.rules[i]
		if source != "" && len(r.Sources) > 0 && !slices.Contains(r.Sources, source) ||
			namespace != "" && len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, namespace) {
			continue
		}
		if g.forms[i].Level() < least.Level() {
			least = g.forms[i]
		}
		if (source != "" || len(r.Sources) == 0) && (namespace != "" || len(r.Namespaces) == 0) && !r.restrictsLabels() {
			return least
		}
	}
	return Form{}
}

// Form is what is shown of a pod. It is comparable. The zero value shows nothing.
type Form struct{ handle unique.Handle[form] }

type form struct {
	level Level
	// annotations has the keys of the annotations that stay, separated by spaces.
	annotations string
}

func formOf(level Level, annotations []string) Form {
	if level == None {
		return Form{}
	}
	return Form{unique.Make(form{level, strings.Join(sortedSet(annotations), " ")})}
}

// Level returns the level of the form.
func (f Form) Level() Level {
	if f == (Form{}) {
		return None
	}
	return f.handle.Value().level
}

// Equal reports whether two pods are the same.
func Equal(a, b *v1.Pod) bool { return a == b || reflect.DeepEqual(a, b) }

// Same reports whether two forms of a pod show the same. It ignores the version in the
// apiserver and the generation, which also change if something hidden changes.
func Same(a, b *v1.Pod) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	x.ResourceVersion, x.Generation, x.ManagedFields = y.ResourceVersion, y.Generation, y.ManagedFields
	return reflect.DeepEqual(&x, &y)
}

// Apply returns the pod in this form; nil for None. It does not change the pod. The result shares
// unchanged parts with the pod.
func (f Form) Apply(pod *v1.Pod) *v1.Pod {
	switch f.Level() {
	case Full:
		return pod
	case Redacted:
		return redact(pod, strings.Fields(f.handle.Value().annotations))
	case Metadata:
		return metadata(pod)
	}
	return nil
}
