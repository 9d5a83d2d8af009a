package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

func newValidateCommand() *cobra.Command {
	var hostname, output string
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Say what the daemon would make of manifests",
		Long: `Say what the daemon would make of each manifest, without one running. A directory
stands for the manifests in it, which may not give two pods the same name.

The exit code is 1 if any of them can't be used.`,
		Example: "  podconfigd validate /etc/kubernetes/manifests\n  podconfigd validate web.yaml db.yaml",
		Args:    someArgs("FILE", 0),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := checkOutput(output, "json", "yaml"); err != nil {
				return err
			}
			// The source logs what it finds, and that is what is printed below.
			ctx := klog.NewContext(cmd.Context(), klog.Logger{})
			verdicts, err := validateAll(ctx, paths, hostname)
			if err != nil {
				return err
			}
			return printVerdicts(cmd.OutOrStdout(), output, verdicts)
		},
	}
	cmd.Flags().StringVar(&hostname, "hostname-override", "", "the node's name; the hostname if empty")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; a line for each if empty")
	return cmd
}

func validateAll(ctx context.Context, paths []string, hostname string) ([]v1alpha1.Manifest, error) {
	node, err := daemon.NodeName(hostname)
	if err != nil {
		return nil, err
	}
	verdicts := []v1alpha1.Manifest{}
	for _, path := range paths {
		found, err := file.Check(ctx, file.Options{Path: path, Decoder: manifest.NewDecoder(node)})
		if err != nil {
			found = []v1alpha1.Manifest{{Path: path, State: v1alpha1.ManifestRejected, Reason: "Unreadable", Message: err.Error()}}
		}
		verdicts = append(verdicts, found...)
	}
	return verdicts, nil
}

func printVerdicts(w io.Writer, output string, verdicts []v1alpha1.Manifest) error {
	failed := false
	for _, v := range verdicts {
		failed = failed || v.State != v1alpha1.ManifestAccepted
	}
	if output != "" {
		if err := printObject(w, output, verdicts); err != nil {
			return err
		}
	} else {
		for _, v := range verdicts {
			if err := printVerdict(w, v); err != nil {
				return err
			}
		}
	}
	if failed {
		return errSilent
	}
	return nil
}

func printVerdict(w io.Writer, v v1alpha1.Manifest) error {
	about := fmt.Sprintf("%s: %s: %s", v.State, v.Reason, v.Message)
	if v.State == v1alpha1.ManifestAccepted {
		about = fmt.Sprintf("ok: pod %s/%s, UID %s", v.Namespace, v.Name, v.UID)
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", cell(v.Path), cell(about))
	for _, warning := range v.Warnings {
		_, warnErr := fmt.Fprintf(w, "%s: warning: %s\n", cell(v.Path), cell(warning))
		err = cmp.Or(err, warnErr)
	}
	return err
}
