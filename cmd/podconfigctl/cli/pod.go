package cli

import (
	"context"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/pkg/client"
)

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
