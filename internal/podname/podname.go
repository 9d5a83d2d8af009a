// Package podname has the rule by which all commands understand the name of a pod.
//
// A user writes NAME or NAMESPACE/NAME. Without a namespace, pods of all namespaces have the name. The name of a static
// pod can be that in its manifest, without the name of the node. An exact name wins: if a pod is called web, then web is
// that pod, also if there is a static pod web-node1.
package podname

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Name is what a user calls a pod. An empty namespace stands for all.
type Name struct{ Namespace, Name string }

// Parse reads NAME or NAMESPACE/NAME, also with "pod/" before it. namespace is that of the flag
// --namespace, or empty.
func Parse(text, namespace string) (Name, error) {
	n := Name{Name: strings.TrimPrefix(text, "pod/")}
	if before, after, ok := strings.Cut(n.Name, "/"); ok {
		n.Namespace, n.Name = before, after
		if before == "" || after == "" || strings.Contains(after, "/") {
			return Name{}, fmt.Errorf("%q is not a pod: expected NAME or NAMESPACE/NAME", text)
		}
	}
	switch {
	case n.Name == "":
		return Name{}, fmt.Errorf("%q is not a pod: expected NAME or NAMESPACE/NAME", text)
	case namespace != "" && n.Namespace != "" && namespace != n.Namespace:
		return Name{}, fmt.Errorf("%q is not in the namespace %s of --namespace: leave out one of them", text, namespace)
	case namespace != "":
		n.Namespace = namespace
	}
	return n, nil
}

// String is the name as it was written.
func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

// Exact reports whether a pod has the name.
func (n Name) Exact(namespace, name string) bool {
	return n.Name != "" && n.Name == name && (n.Namespace == "" || n.Namespace == namespace)
}

// InManifest reports whether a static pod of the node has the name in its manifest.
func (n Name) InManifest(namespace, name, node string) bool {
	return node != "" && n.Exact(namespace, strings.TrimSuffix(name, "-"+strings.ToLower(node))) && n.Name != name
}

// Find returns the items that have the name: those that are called so, or if none is, those that
// have it in their manifest. of returns the namespace, the name and the node of an item.
func Find[T any](n Name, items []T, of func(*T) (namespace, name, node string)) []T {
	pick := func(fits func(namespace, name, node string) bool) (found []T) {
		for i := range items {
			if namespace, name, node := of(&items[i]); fits(namespace, name, node) {
				found = append(found, items[i])
			}
		}
		return found
	}
	if found := pick(func(namespace, name, _ string) bool { return n.Exact(namespace, name) }); len(found) > 0 {
		return found
	}
	return pick(n.InManifest)
}

// ErrNotFound means that there is no pod of the name.
var ErrNotFound = errors.New("not found")

// Static returns the name that a static pod has on a node, if its manifest has the name.
func Static(name, node string) string { return name + "-" + strings.ToLower(node) }

// One returns the one pod among the names NAMESPACE/NAME that were found. They may repeat.
func (n Name) One(found []string) (string, error) {
	slices.Sort(found)
	switch found = slices.Compact(found); len(found) {
	case 0:
		return "", fmt.Errorf("pod %q %w", n.String(), ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q is ambiguous: expected one of %s", n.String(), strings.Join(found, ", "))
}
