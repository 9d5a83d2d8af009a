// Package validate has the command validate, which checks manifests as the daemon does.
package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// Options configure the verdicts, and when the command fails.
type Options struct {
	// stdin is the manifest of the FILE "-".
	stdin                  []byte
	hostname, manifestPath string
	kubelets               string
	ignore                 []string
	strict                 bool
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var opts Options
	var output string
	var as []string
	cmd := &cobra.Command{
		Use:        "validate FILE…",
		SuggestFor: []string{"check", "lint"},
		Short:      "Check manifests as the daemon does",
		Long: `Check manifests as the daemon does. No daemon needs to run.

FILE is a manifest or a directory, or - for a manifest on standard input. For a directory, the command checks each manifest in
it, and also that no two manifests give the same pod name. If the daemon on this machine reads the directory, the manifest
that has the name there keeps it. The command checks each FILE independently of the others.

The command prints one verdict per manifest, with the name and UID of the pod. The UID of
a static pod depends on the path of its file, as the daemon gets it. By default, the UID
is for FILE as given. With --pod-manifest-path, it is for a file of the same name in that
directory. The directory need not exist.

Faults that the kubelet ignores, for example a misspelled field or a duplicate key, are
warnings, and so are keys and values such as n, on and yes, which become booleans.

The UID, the defaults and the verdict are those of the kubelet of the daemon on this machine,
or without a daemon, of the newest known one. For a version in --kubelet-version that is not
known, the command uses the nearest rules, as the daemon does, and says so. With several
versions, it prints a table: what each kubelet refuses, ignores, and sets to other defaults than
the one before. A kubelet that is upgraded starts a pod again if its UID changes.

In a directory, what is not meant as a pod is Ignored: subdirectories, special files, empty files, texts and objects of
other kinds. A FILE that is no directory must be a pod.

The exit code is 1 if a manifest can't be used by one of the kubelets. With --strict, it is also
1 if there is a warning.`,
		Example: `  # Check the manifests of a directory
  podconfigctl validate /etc/kubernetes/manifests

  # Check two manifests before they are copied, and fail on warnings
  podconfigctl validate --strict --pod-manifest-path=/etc/kubernetes/manifests web.yaml db.yaml

  # Check the output of a template, and list its faults as objects
  helm template chart | podconfigctl validate -o json -

  # Show what an upgrade of the kubelet changes
  podconfigctl validate --kubelet-version=1.34,1.36,1.37 /etc/kubernetes/manifests`,
		Args: command.SomeArgs("FILE", 0),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := command.CheckOutput(output, "json", "yaml"); err != nil {
				return err
			}
			if err := opts.check(as); err != nil {
				return err
			}
			if slices.Contains(paths, stdin) {
				var err error
				if opts.stdin, err = manifest.Read(cmd.InOrStdin(), 0); err != nil {
					return fmt.Errorf("reading standard input: %w", err)
				}
			}
			return opts.run(cmd.Context(), paths, output, cli.Streams(cmd))
		},
	}
	cmd.Flags().StringVar(&opts.hostname, "hostname-override", "", "Name of the node. If empty, uses that of the daemon on this machine, or the hostname.")
	cmd.Flags().StringArrayVar(&as, "pod-manifest-path", nil,
		"Path of the directory that will contain the files, as the daemon gets it, with or without a name. The printed UIDs are for this directory.")
	cmd.Flags().StringVar(&opts.kubelets, "kubelet-version", "",
		"Versions of the kubelet whose rules to check by, for example 1.34,1.37 or 1.34-1.37. If empty, uses that of the daemon on this machine, or the newest known one.")
	cmd.Flags().StringSliceVar(&opts.ignore, "ignore-manifests", nil,
		"Patterns of names of files in a directory that are not read, as for the daemon, for example '*.bak,*~'. Can be repeated.")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "Fail if there are warnings, for example unknown fields and duplicate keys.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints text.")
	command.CompleteFlag(cmd, "output", "json", "yaml")
	return cmd
}

// check takes the values of --pod-manifest-path, and checks the patterns of --ignore-manifests.
func (o *Options) check(as []string) error {
	if len(as) > 1 {
		return errors.New("--pod-manifest-path: expected one path: validate the files of each path on their own")
	}
	for _, value := range as {
		var name string
		if name, o.manifestPath = config.SplitSource(value); name != "" && o.manifestPath == "" {
			return fmt.Errorf("--pod-manifest-path: source %s has no PATH", config.NamedSource(config.FileSource, name))
		}
	}
	for _, pattern := range o.ignore {
		if err := file.CheckPattern(pattern); err != nil {
			return fmt.Errorf("--ignore-manifests: %w", err)
		}
	}
	return nil
}

// stdin is the FILE that stands for standard input, and inStdin its name in the output.
const (
	stdin   = "-"
	inStdin = "standard input"
)

// run prints the verdicts of each kubelet on each manifest.
func (o *Options) run(ctx context.Context, paths []string, output string, streams cli.IOStreams) error {
	// The source logs its verdicts, which are printed below.
	ctx = klog.NewContext(ctx, klog.Logger{})
	status := new(v1alpha1.Status)
	if o.kubelets == "" || o.hostname == "" {
		status = askDaemon(ctx)
	}
	minors, err := o.minors(status, streams.ErrOut)
	if err != nil {
		return err
	}
	node, err := manifest.NodeName(cmp.Or(o.hostname, status.NodeName))
	if err != nil {
		return err
	}
	all, failed := []*verdict{}, false // an empty list in JSON
	for _, path := range paths {
		before := make(map[string]*verdict)
		var found []*verdict
		for _, minor := range minors {
			decoder := manifest.NewDecoder(node).For(minor)
			for _, of := range o.validate(ctx, decoder, path, o.served(status, path)) {
				v := &verdict{Manifest: of.Manifest, Faults: faultsOf(&of), of: of}
				failed = failed || v.State != v1alpha1.ManifestAccepted && v.State != v1alpha1.ManifestIgnored || o.strict && len(of.Warnings) > 0
				if len(minors) > 1 {
					v.Kubelet = minor.String()
					v.compare(o.decode(decoder, v), before[of.File])
				}
				before[of.File] = v
				found = append(found, v)
			}
		}
		if len(found) == 0 {
			fmt.Fprintln(streams.ErrOut, cli.Cell("No manifests found in "+path))
		}
		slices.SortStableFunc(found, func(a, b *verdict) int { return strings.Compare(a.of.File, b.of.File) })
		all = append(all, found...)
	}
	if err := printVerdicts(streams.Out, output, all); err != nil {
		return err
	}
	if failed {
		return command.ErrSilent
	}
	return nil
}

// served returns the names of the files whose pods the daemon on this machine serves, if it reads the directory. They keep their
// pods if another file has one of the same name.
func (o *Options) served(status *v1alpha1.Status, path string) (names []string) {
	dir, err := os.Stat(cmp.Or(o.manifestPath, path))
	if err != nil || !dir.IsDir() {
		return nil
	}
	for i := range status.Sources {
		source := status.Sources[i].File
		if source == nil {
			continue
		}
		if its, err := os.Stat(source.Path); err != nil || !os.SameFile(dir, its) {
			continue
		}
		for j := range source.Manifests {
			if m := &source.Manifests[j]; m.State == v1alpha1.ManifestAccepted || m.State == v1alpha1.ManifestHeld {
				names = append(names, filepath.Base(m.Path))
			}
		}
	}
	return names
}

// validate returns the verdicts on the manifests of a path.
func (o *Options) validate(ctx context.Context, decoder *manifest.Decoder, path string, served []string) []file.Verdict {
	if path == stdin {
		return []file.Verdict{file.Judge(decoder, inStdin, o.stdin)}
	}
	found, err := file.Check(ctx, file.Options{Path: path, Decoder: decoder, Ignore: o.ignore}, o.manifestPath, served)
	if err == nil {
		return found
	}
	if strings.Contains(path, "://") {
		err = errors.New("podconfigctl validate reads files: to check a URL, pipe what it serves into podconfigctl validate -")
	}
	v := file.Verdict{File: path, Faults: []manifest.Fault{{Message: err.Error()}}}
	v.Path, v.State, v.Reason, v.Message = path, v1alpha1.ManifestRejected, "Unreadable", err.Error()
	return []file.Verdict{v}
}

// verdict is the verdict of a kubelet on a manifest.
type verdict struct {
	// Kubelet is the minor version, if there are several.
	Kubelet string `json:"kubelet,omitempty"`
	v1alpha1.Manifest
	Faults []faultObject `json:"faults,omitempty"`
	// UIDChanges is true if this kubelet gives the pod another UID than the kubelet before. An upgrade then starts the pod again.
	UIDChanges bool `json:"uidChanges,omitempty"`
	// Differs lists the fields that this kubelet sets to other values than the kubelet before.
	Differs []string `json:"differs,omitempty"`

	of  file.Verdict
	pod *v1.Pod
}

// faultObject is a fault or a warning of a manifest.
type faultObject struct {
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Reason  string `json:"reason"`
	Warning bool   `json:"warning,omitempty"`
}

// faultsOf returns the faults of a verdict, and then its warnings.
func faultsOf(v *file.Verdict) (faults []faultObject) {
	for _, f := range v.Faults {
		faults = append(faults, faultObject{f.Line, f.Field, f.Message, false})
	}
	for _, f := range v.Warnings {
		faults = append(faults, faultObject{f.Line, f.Field, f.Message, true})
	}
	return faults
}

// printVerdicts prints the verdicts: as objects, as a table with lines below if there are several kubelets, or as lines.
func printVerdicts(w io.Writer, output string, verdicts []*verdict) error {
	if output != "" {
		return command.PrintObject(w, output, verdicts)
	}
	var rows [][]string
	var lines []string
	for _, v := range verdicts {
		if v.Kubelet == "" {
			lines = append(lines, verdictLines(&v.of)...)
			continue
		}
		rows = append(rows, v.row())
		for _, line := range v.lines() {
			lines = append(lines, fmt.Sprintf("kubelet %s: %s", v.Kubelet, line))
		}
	}
	if rows != nil {
		if err := cli.PrintTable(w, []string{"MANIFEST", "KUBELET", "VERDICT", "UID", "UPGRADE"}, rows); err != nil {
			return err
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, cli.Cell(line)); err != nil {
			return err
		}
	}
	return nil
}

// verdictLines returns the verdict, and then each fault and warning in a line that starts
// with its position, as compilers do.
func verdictLines(v *file.Verdict) []string {
	if v.State == v1alpha1.ManifestAccepted {
		lines := []string{fmt.Sprintf("%s: ok: pod %s/%s, path %s, UID %s", v.File, v.Namespace, v.Name, v.Path, v.UID)}
		if v.UID == "" { // it would depend on the path
			lines[0] = fmt.Sprintf("%s: ok: pod %s/%s", v.File, v.Namespace, v.Name)
		}
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
