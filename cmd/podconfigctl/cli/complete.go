package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// completionTimeout is the time in which the daemon must answer a request for a completion.
const completionTimeout = time.Second

// A completion returns what a word can be, and what the shell does with it.
type completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// CompleteList completes the last value of a flag that is a comma-separated list.
func CompleteList(cmd *cobra.Command, flag string, values ...string) {
	complete(cmd, flag, func(_ *cobra.Command, _ []string, word string) (lists []string, _ cobra.ShellCompDirective) {
		before := word[:strings.LastIndexByte(word, ',')+1]
		for _, value := range values {
			if !slices.Contains(strings.Split(before, ","), value) {
				lists = append(lists, before+value)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func complete(cmd *cobra.Command, flag string, c completion) {
	_ = cmd.RegisterFlagCompletionFunc(flag, c) // fails only if there is no such flag
}

// Ask asks the daemon for a completion. It does nothing without a daemon.
func (f *ClientFlags) Ask(ask func(context.Context, *client.Client)) {
	c, err := f.Client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	ask(ctx, c)
	c.CloseIdleConnections()
}

// Sources returns the names of the sources of the daemon for a completion, or those of the
// kubelet if there is no daemon.
func (f *ClientFlags) Sources() (names []string, _ cobra.ShellCompDirective) {
	f.Ask(func(ctx context.Context, c *client.Client) {
		if status, err := c.Status(ctx); err == nil {
			for i := range status.Sources {
				names = append(names, status.Sources[i].Name)
			}
		}
	})
	if names == nil {
		names = []string{"file", "http", "api"}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteSource completes the flag --source of the command.
func (f *ClientFlags) CompleteSource(cmd *cobra.Command) {
	complete(cmd, "source", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return f.Sources() })
}

// Pods returns the names of the pods of the daemon that can be meant by a word, in the namespace of
// --namespace. They have their namespaces if the word has one.
func (f *ClientFlags) Pods(cmd *cobra.Command, word string) (names []string) {
	namespace, _ := cmd.Flags().GetString("namespace") // empty without the flag
	f.Ask(func(ctx context.Context, c *client.Client) {
		pods, err := c.Pods(ctx)
		if err != nil {
			return
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			switch {
			case namespace != "" && p.Namespace != namespace:
			case strings.Contains(word, "/"):
				names = append(names, p.Namespace+"/"+p.Name)
			default:
				names = append(names, p.Name)
			}
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// CompletePods returns the completion of an argument POD, of which there are at most most; 0 is any
// number. It also completes --namespace.
func (f *ClientFlags) CompletePods(cmd *cobra.Command, most int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.Pods(cmd, word), cobra.ShellCompDirectiveNoFileComp
	}
	f.CompleteNamespace(cmd)
}

// CompleteNamespace completes --namespace with the namespaces of the pods.
func (f *ClientFlags) CompleteNamespace(cmd *cobra.Command) {
	complete(cmd, "namespace", func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		f.Ask(func(ctx context.Context, c *client.Client) {
			if pods, err := c.Pods(ctx); err == nil {
				for i := range pods.Items {
					names = append(names, pods.Items[i].Namespace)
				}
			}
		})
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	})
}

// PodFlags are the argument POD of a command, and its flag --namespace.
type PodFlags struct {
	Namespace string
	// Pod is the argument; empty without one.
	Pod string
}

// AddTo adds --namespace to a command.
func (f *PodFlags) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "Namespace of POD. If empty, POD can be in any namespace.")
}

// Name returns the name that the argument and the flag say.
func (f *PodFlags) Name() (podname.Name, error) { return podname.Parse(f.Pod, f.Namespace) }

// Resolve returns the one pod of the daemon that has the name.
func (f *PodFlags) Resolve(ctx context.Context, c *client.Client) (types.NamespacedName, error) {
	pod, err := f.Find(ctx, c)
	if err != nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, nil
}

// Find returns the one pod of the daemon that has the name. If two sources have it, it is one of
// them.
func (f *PodFlags) Find(ctx context.Context, c *client.Client) (*v1.Pod, error) {
	name, err := f.Name()
	if err != nil {
		return nil, err
	}
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	found := podname.Find(name, pods.Items, func(p *v1.Pod) (string, string, string) { return p.Namespace, p.Name, p.Spec.NodeName })
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Namespace + "/" + found[i].Name
	}
	if _, err := name.One(names); err != nil {
		return nil, err
	}
	return &found[0], nil
}

// RuntimePods are the pods of the container runtime by UID, or nil if they are not known.
type RuntimePods map[string]*v1alpha1.RuntimePod

// AskRuntime requests the pods of the container runtime from the daemon. There are none if the
// daemon has no runtime, or if a user of https may read only the pods.
func AskRuntime(ctx context.Context, c *client.Client) (RuntimePods, error) {
	runtime, err := c.Runtime(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && (refused.Code == http.StatusNotFound || refused.Code == http.StatusForbidden) {
		return nil, nil //nolint:nilnil // there are none
	}
	if err != nil {
		return nil, err
	}
	pods := make(RuntimePods, len(runtime.Pods))
	for i := range runtime.Pods {
		pods[runtime.Pods[i].UID] = &runtime.Pods[i]
	}
	return pods, nil
}
