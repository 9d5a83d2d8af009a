package get

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podconfigd/podconfigd/internal/podname"
)

// wanted is the name that an argument gives. exact is true once a pod with exactly this name was found.
type wanted struct {
	podname.Name
	exact bool
}

func (w wanted) fits(pod *unstructured.Unstructured) bool {
	namespace, name, node := identity(pod)
	return w.Exact(namespace, name) || !w.exact && w.InManifest(namespace, name, node)
}

// identity returns the namespace, the name and the node of a pod.
func identity(pod *unstructured.Unstructured) (namespace, name, node string) {
	node, _, _ = unstructured.NestedString(pod.Object, "spec", "nodeName") // it may have none
	return pod.GetNamespace(), pod.GetName(), node
}

// choose returns the pods of the arguments, in their order, as kubectl does. The error lists every
// name without a pod. A name that was found means the same pods in all later calls.
func (o *Options) choose(pods []unstructured.Unstructured) (chosen []unstructured.Unstructured, missing error) {
	var errs []error
	var names []wanted
	for _, w := range o.names {
		found := podname.Find(w.Name, pods, identity)
		if len(found) == 0 {
			errs, names = append(errs, fmt.Errorf("pod %q %w", w.String(), podname.ErrNotFound)), append(names, w)
		}
		for i := range found {
			exact := podname.Name{Namespace: found[i].GetNamespace(), Name: found[i].GetName()}
			names, chosen = append(names, wanted{exact, true}), append(chosen, found[i])
		}
	}
	o.names = names
	if o.ignoreNotFound {
		return chosen, nil
	}
	return chosen, errors.Join(errs...)
}
