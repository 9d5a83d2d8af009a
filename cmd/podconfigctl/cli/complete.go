package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
