package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// validateOptions say how manifests are judged, and which make the command fail.
type validateOptions struct {
	hostname, manifestPath string
	strict                 bool
}

func newValidateCommand() *cobra.Command {
	var opts validateOptions
	var output string
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Say what the daemon would make of manifests",
		Long: `Say what the daemon would make of each manifest. No daemon needs to run. A directory
stands for the manifests in it, which may not give two pods the same name. FILEs are
judged one by one otherwise.

The UID of a static pod depends on the path of its file, as the daemon is given it. The
UID that is printed holds for the path beside it: that of FILE as given, or that of a
file of this name in the directory that --pod-manifest-path names. The directory need not
exist.

What the kubelet ignores, such as a misspelled field or a duplicate key, is a warning.

The exit code is 1 if a manifest can't be used. With --strict it is also 1 if there is a
warning.`,
		Example: "  podconfigd validate /etc/kubernetes/manifests\n" +
			"  podconfigd validate --strict --pod-manifest-path=/etc/kubernetes/manifests web.yaml db.yaml",
		Args: someArgs("FILE", 0),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := checkOutput(output, "json", "yaml"); err != nil {
				return err
			}
			// The source logs what it finds, and that is what is printed below.
			ctx := klog.NewContext(cmd.Context(), klog.Logger{})
			verdicts, err := opts.validate(ctx, paths)
			if err != nil {
				return err
			}
			if err := printVerdicts(cmd.OutOrStdout(), output, verdicts); err != nil {
				return err
			}
			if slices.ContainsFunc(verdicts, opts.fails) {
				return errSilent
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.hostname, "hostname-override", "", "the node's name; the hostname if empty")
	cmd.Flags().StringVar(&opts.manifestPath, "pod-manifest-path", "",
		"the directory in which the files will be, as it is given to the daemon; the UIDs hold for this path")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "fail if there are warnings, such as unknown fields and duplicate keys")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; text if empty")
	return cmd
}

// fails tells whether the command fails because of the verdict.
func (o *validateOptions) fails(v file.Verdict) bool {
	return v.State != v1alpha1.ManifestAccepted || o.strict && len(v.Warnings) > 0
}

func (o *validateOptions) validate(ctx context.Context, paths []string) ([]file.Verdict, error) {
	node, err := daemon.NodeName(o.hostname)
	if err != nil {
		return nil, err
	}
	var verdicts []file.Verdict
	for _, path := range paths {
		found, err := file.Check(ctx, file.Options{Path: path, Decoder: manifest.NewDecoder(node)}, o.manifestPath)
		if err != nil {
			v := file.Verdict{File: path, Faults: []manifest.Fault{{Message: err.Error()}}}
			v.Path, v.State, v.Reason, v.Message = path, v1alpha1.ManifestRejected, "Unreadable", err.Error()
			found = []file.Verdict{v}
		}
		verdicts = append(verdicts, found...)
	}
	return verdicts, nil
}

func printVerdicts(w io.Writer, output string, verdicts []file.Verdict) error {
	if output != "" {
		objects := make([]v1alpha1.Manifest, len(verdicts))
		for i, v := range verdicts {
			objects[i] = v.Manifest
		}
		return printObject(w, output, objects)
	}
	for _, v := range verdicts {
		for _, line := range verdictLines(&v) {
			if _, err := fmt.Fprintln(w, cell(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// verdictLines returns the verdict, and then each fault and warning in a line that
// begins with its place, as compilers do.
func verdictLines(v *file.Verdict) []string {
	if v.State == v1alpha1.ManifestAccepted {
		lines := []string{fmt.Sprintf("%s: ok: pod %s/%s, path %s, UID %s", v.File, v.Namespace, v.Name, v.Path, v.UID)}
		return append(lines, warningLines(v)...)
	}
	verdict := fmt.Sprintf("%s: %s: %s", v.File, v.State, v.Reason)
	located := slices.ContainsFunc(v.Faults, func(f manifest.Fault) bool { return f.Line > 0 })
	if !located {
		return append([]string{verdict + ": " + v.Message}, warningLines(v)...)
	}
	lines := []string{verdict}
	for _, f := range v.Faults {
		lines = append(lines, f.In(v.File))
	}
	return append(lines, warningLines(v)...)
}

func warningLines(v *file.Verdict) (lines []string) {
	for _, f := range v.Warnings {
		place := v.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", v.File, f.Line)
		}
		f.Line = 0
		lines = append(lines, fmt.Sprintf("%s: warning: %s", place, f.In("")))
	}
	return lines
}
