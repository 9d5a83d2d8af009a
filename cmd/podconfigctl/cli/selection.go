package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Selection are the flags of the commands that read the stream: which updates, of which pods.
type Selection struct {
	client.Options
	ops             string
	mirrorPods, all bool
}

// AddTo adds the flags to a command. opsHelp says what --ops selects if it is empty, and verb what becomes of an update.
func (s *Selection) AddTo(cmd *cobra.Command, flags *ClientFlags, opsHelp, verb string) {
	f := cmd.Flags()
	f.StringVar(&s.ops, "ops", "", "Comma-separated list of operations. * selects all. If empty, selects "+opsHelp+".")
	f.StringVar(&s.Source, "source", "", "Select pods of one source. One of: file, http, api, file:NAME, http:NAME.")
	flags.CompleteSource(cmd)
	f.StringVarP(&s.Namespace, "namespace", "n", "", "Select pods of one namespace.")
	f.BoolVarP(&s.all, "all-namespaces", "A", false, "Select pods of all namespaces and ignore --namespace. This is the default without --namespace.")
	f.StringVarP(&s.LabelSelector, "selector", "l", "", "Select pods by label, for example app=web.")
	f.StringVar(&s.FieldSelector, "field-selector", "", "Select pods by field, for example metadata.name=web-node1.")
	f.StringVar(&s.Owner, "owner", "", OwnerHelp)
	f.StringSliceVar(&s.Fields, "fields", nil, "Comma-separated list of the fields of pods to "+verb+", for example spec.containers.image,status.podIPs. Changes of other fields are not "+verb+"ed. If empty, "+verb+"s all.")
	f.BoolVar(&s.mirrorPods, "mirror-pods", true, "Include mirror pods, which a kubelet creates in the apiserver for its static pods.")
	CompleteList(cmd, "ops", "ADD", "UPDATE", "REMOVE", "DELETE", "RECONCILE", "SET", "SYNC", "PLEG", "HOUSEKEEPING", "*")
	CompleteList(cmd, "fields", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations", "spec.nodeName",
		"spec.containers", "spec.containers.name", "spec.containers.image", "spec.hostNetwork", "spec.volumes", "status.phase", "status.podIPs",
		"status.hostIPs", "status.conditions", "status.containerStatuses", "status.startTime")
}

// Stream returns the options of the stream.
func (s *Selection) Stream() client.Options {
	o := s.Options
	o.NoMirrorPods = !s.mirrorPods
	if s.all { // as for kubectl
		o.Namespace = ""
	}
	if s.ops != "" {
		for op := range strings.SplitSeq(s.ops, ",") {
			o.Ops = append(o.Ops, v1alpha1.Op(strings.ToUpper(strings.TrimSpace(op)))) // as the daemon reads it
		}
	}
	return o
}
