package get

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

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
