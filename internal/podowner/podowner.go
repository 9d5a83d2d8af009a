// Package podowner selects pods by their owners.
package podowner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Selector selects pods by one of their owners. The zero value selects all pods.
type Selector struct {
	// Kind is in lower case. With AnyGroup, Group is not compared.
	Kind, Group, Name string
	AnyGroup          bool
}

// Parse parses KIND/NAME, as in deployment/checkout, or KIND.GROUP/NAME, as in deployment.apps/checkout. The kind may have any case.
// The kind file has a path: file//etc/kubernetes/manifests/web.yaml. The empty text selects all pods.
func Parse(text string) (Selector, error) {
	if text == "" {
		return Selector{}, nil
	}
	kind, name, _ := strings.Cut(text, "/")
	kind, group, grouped := strings.Cut(strings.ToLower(kind), ".")
	path := !grouped && strings.EqualFold(kind, v1alpha1.FileKind)
	if kind == "" || name == "" || strings.Contains(name, "/") && !path || grouped && group == "" {
		return Selector{}, fmt.Errorf("%q is not an owner: expected KIND/NAME or KIND.GROUP/NAME, for example deployment/web", text)
	}
	return Selector{kind, group, name, !grouped}, nil
}

// Empty reports whether the selector selects all pods.
func (s Selector) Empty() bool { return s == Selector{} }

// Matches reports whether the selector selects a pod with these owners.
func (s Selector) Matches(owners []v1alpha1.Owner) bool {
	return s.Empty() || slices.ContainsFunc(owners, func(o v1alpha1.Owner) bool {
		group, _, grouped := strings.Cut(o.APIVersion, "/")
		if !grouped { // v1
			group = ""
		}
		return o.Name == s.Name && strings.EqualFold(o.Kind, s.Kind) && (s.AnyGroup || group == s.Group)
	})
}
