// Package podname finds the pod that a user names on the command line:
//
//	name, err := podname.Parse("kube-system/web", "")
//	found := podname.Find(name, pods, keyOf)
//
// A user writes NAME or NAMESPACE/NAME. Without a namespace, the name matches in all namespaces. A static pod has a second
// name: the one in its manifest, which is shorter by the name of the node. The full name comes first: if there are pods web
// and web-node1, then web is the pod web.
package podname

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Name is a name that a user wrote. An empty namespace means all namespaces.
type Name struct{ Namespace, Name string }

// Parse reads NAME or NAMESPACE/NAME, also with "pod/" before it. namespace is the value of the flag --namespace.
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

// String returns the name as the user wrote it.
func (n Name) String() string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "/" + n.Name
}

// WithNamespace returns NAMESPACE/NAME. The namespace is default if the user wrote none.
func (n Name) WithNamespace() string { return cmp.Or(n.Namespace, "default") + "/" + n.Name }

// Exact reports whether the name is the full name of a pod.
func (n Name) Exact(namespace, name string) bool {
	return n.Name != "" && n.Name == name && (n.Namespace == "" || n.Namespace == namespace)
}

// InManifest reports whether the name is the one in the manifest of a static pod of the node.
func (n Name) InManifest(namespace, name, node string) bool {
	return node != "" && n.Exact(namespace, strings.TrimSuffix(name, "-"+strings.ToLower(node))) && n.Name != name
}

// Find returns the items whose full name is the name. If there are none, it returns the items that have the name in their
// manifest. of returns the namespace, the name and the node of an item.
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

// ErrNotFound means that there is no pod with the name.
var ErrNotFound = errors.New("not found")

// Static returns the full name of a static pod on a node. name is the one in its manifest.
func Static(name, node string) string { return name + "-" + strings.ToLower(node) }

// One returns the only pod among the found pods NAMESPACE/NAME. It is an error if there are several or none. Duplicates count
// once.
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
