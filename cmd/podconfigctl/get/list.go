package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// listPods requests all pods, sorted by namespace and name. Each pod is as in the
// Kubernetes API. owner selects pods by it, unless it is empty. Unlike there, the list does not wait for sources that have not delivered their pods yet.
func listPods(ctx context.Context, c *client.Client, owner string) (*unstructured.UnstructuredList, error) {
	query := url.Values{"mirrorPods": {"true"}, "resourceVersions": {"true"}}
	if owner != "" {
		query.Set("owner", owner)
	}
	list, err := getList(ctx, c, "/pods", query)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == http.StatusBadRequest {
		query.Del("resourceVersions") // an earlier version does not have it
		list, err = getList(ctx, c, "/pods", query)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list, nil
}

// noteUnseen names the sources that have not delivered their pods yet. The list lacks them.
func noteUnseen(ctx context.Context, c *client.Client, notes io.Writer) {
	status, err := c.Status(ctx)
	if err != nil {
		return // the client may not read it
	}
	var unseen []string
	for _, source := range status.Sources {
		if !source.Seen && !source.Restored {
			unseen = append(unseen, source.Name)
		}
	}
	if len(unseen) > 0 {
		fmt.Fprintf(notes, "podconfigctl: waiting for sources: %s; their pods are not in the list\n", strings.Join(unseen, ", "))
	}
}

// getList requests a list of pods.
func getList(ctx context.Context, c *client.Client, path string, query url.Values) (*unstructured.UnstructuredList, error) {
	body, err := c.Get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading the response to %s: %w", path, err)
	}
	list := new(unstructured.UnstructuredList)
	if err := list.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("reading the response to %s: %w", path, err)
	}
	return list, nil
}

// asList returns a list as kubectl prints it.
func asList(items []unstructured.Unstructured) *unstructured.UnstructuredList {
	return &unstructured.UnstructuredList{
		Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}},
		Items:  items,
	}
}

// podOf converts an object to a pod.
func podOf(object *unstructured.Unstructured) (*v1.Pod, error) {
	pod := new(v1.Pod)
	return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod)
}

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

// ownerOf returns the top of the owners of a pod, as the daemon knows them.
func ownerOf(ctx context.Context, c *client.Client, pod *v1.Pod) string {
	found, err := c.Lookup(ctx, client.LookupQuery{PodUID: string(pod.UID)})
	if err != nil || len(found.Pods) == 0 {
		return "<unknown>"
	}
	return cli.TopOwner(found.Pods[0].Owners)
}

// listFlags are the flags that get pods and get containers share.
type listFlags struct {
	output, namespace, selector, fieldSelector, ownedBy string
	all, noHeaders, watch, watchOnly, watchEvents       bool
}

// addTo adds the flags whose help is the same. what is what the command lists.
func (l *listFlags) addTo(f *pflag.FlagSet, what string) {
	f.StringVarP(&l.namespace, "namespace", "n", "", "Namespace of the pods. If empty, lists all namespaces.")
	f.BoolVarP(&l.all, "all-namespaces", "A", false, "List the "+what+"s of all namespaces and ignore --namespace. This is the default without --namespace.")
	f.StringVarP(&l.selector, "selector", "l", "", "Select pods by label, for example app=web.")
	f.StringVar(&l.ownedBy, "owner", "", cli.OwnerHelp)
	f.BoolVarP(&l.watch, "watch", "w", false, "After the list, print each "+what+" that changes.")
	f.BoolVar(&l.watchOnly, "watch-only", false, "Print each "+what+" that changes, without the list.")
	f.BoolVar(&l.watchEvents, "output-watch-events", false, "With --watch or --watch-only, print also what happened: ADDED, MODIFIED or DELETED.")
	f.BoolVar(&l.noHeaders, "no-headers", false, "Print the table without headers.")
}

// takeAll has --all-namespaces override --namespace, as for kubectl.
func (l *listFlags) takeAll() {
	if l.all {
		l.namespace = ""
	}
}

// findsOwners reports whether the daemon finds owners, if that is needed: to select by ownedBy, or to print them. Without them, it
// fails for --owner: a daemon of an earlier version ignores this parameter in a watch, and sends all pods.
func findsOwners(ctx context.Context, c *client.Client, ownedBy string, printed bool) (bool, error) {
	if ownedBy == "" && !printed {
		return false, nil
	}
	status, err := c.Status(ctx)
	switch {
	case err != nil:
		return false, nil //nolint:nilerr // the client may not read it
	case status.Owners == nil && ownedBy != "":
		return false, errors.New("--owner: podconfigd does not know the owners of pods: start it with --owners")
	}
	return status.Owners != nil, nil
}

// noteNone says that a table would be empty.
func noteNone(notes io.Writer) { fmt.Fprintln(notes, "No resources found") }
