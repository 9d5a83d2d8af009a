//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/socketpath"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// askTimeout is how long validate waits for the daemon on this machine.
const askTimeout = time.Second

// minors returns the versions of the kubelet to check by. It notes which one it chose.
func (o *validateOptions) minors(ctx context.Context, notes io.Writer) ([]manifest.Minor, error) {
	if o.kubelets != "" {
		minors, err := parseMinors(o.kubelets)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-version: %w", err)
		}
		return minors, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := client.New(cmp.Or(os.Getenv(client.SocketEnv), socketpath.Default()))
	defer c.CloseIdleConnections()
	status, err := c.Status(ctx)
	if err == nil && status.Kubelet != nil {
		if minor, err := manifest.ParseMinor(status.Kubelet.Rules); err == nil && minor.Known() {
			fmt.Fprintf(notes, "By the rules of kubelet %v, as the daemon on this machine\n", minor)
			return []manifest.Minor{minor}, nil
		}
	}
	fmt.Fprintf(notes, "By the rules of kubelet %v, the newest known one\n", manifest.Base)
	return []manifest.Minor{manifest.Base}, nil
}

// parseMinors returns the versions of a list such as 1.34,1.36-1.37, the oldest first.
func parseMinors(list string) (minors []manifest.Minor, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, ok := strings.Cut(strings.ReplaceAll(part, "-v1.", "-1."), "-1.") // a version may have a suffix such as -eks
		if !ok {
			last = first
		} else {
			last = "1." + last
		}
		from, err := knownMinor(first)
		if err != nil {
			return nil, err
		}
		to, err := knownMinor(last)
		if err != nil {
			return nil, err
		}
		if to < from {
			return nil, fmt.Errorf("%q: expected the older version first", part)
		}
		for m := from; m <= to; m++ {
			minors = append(minors, m)
		}
	}
	slices.Sort(minors)
	return slices.Compact(minors), nil
}

func knownMinor(version string) (manifest.Minor, error) {
	m, err := manifest.ParseMinor(strings.TrimSpace(version))
	if err == nil && !m.Known() {
		err = fmt.Errorf("the rules of kubelet %v are not known: expected %v to %v", m, manifest.Oldest, manifest.Base)
	}
	return m, err
}

// kubeletVerdict is the verdict of one kubelet on a manifest.
type kubeletVerdict struct {
	// Kubelet is the minor version.
	Kubelet string `json:"kubelet"`
	located
	// UIDChanges is true if this kubelet gives the pod another UID than the kubelet before. An upgrade then starts the pod again.
	UIDChanges bool `json:"uidChanges,omitempty"`
	// Differs lists the fields that this kubelet sets to other values than the kubelet before.
	Differs []string `json:"differs,omitempty"`

	verdict file.Verdict
	pod     *v1.Pod
}

// compare prints what each kubelet makes of the manifests.
func (o *validateOptions) compare(ctx context.Context, minors []manifest.Minor, paths []string, output string, out, notes io.Writer) error {
	rows := []*kubeletVerdict{} // an empty list in JSON
	failed := false
	for _, path := range paths {
		before := make(map[string]*kubeletVerdict)
		var found []*kubeletVerdict
		for i, m := range minors {
			says := notes
			if i > 0 {
				says = io.Discard // the same for each
			}
			verdicts, err := o.validate(ctx, m, []string{path}, says)
			if err != nil {
				return err
			}
			for _, v := range verdicts {
				failed = failed || o.fails(v)
				row := &kubeletVerdict{Kubelet: m.String(), located: located{v.Manifest, faultsOf(&v)}, verdict: v}
				row.decode(o, m)
				row.since(before[v.File])
				before[v.File] = row
				found = append(found, row)
			}
		}
		slices.SortStableFunc(found, func(a, b *kubeletVerdict) int { return strings.Compare(a.verdict.File, b.verdict.File) })
		rows = append(rows, found...)
	}
	if err := printKubelets(out, output, rows); err != nil {
		return err
	}
	if failed {
		return cli.ErrSilent
	}
	return nil
}

// decode sets the pod of an accepted manifest.
func (k *kubeletVerdict) decode(o *validateOptions, m manifest.Minor) {
	node, err := daemon.NodeName(o.hostname)
	if err != nil || k.State != v1alpha1.ManifestAccepted {
		return
	}
	data := o.stdin
	if k.verdict.File != inStdin {
		data, err = os.ReadFile(k.verdict.File)
	}
	if err == nil {
		k.pod, _, _ = manifest.NewDecoder(node).For(m).DecodeFile(k.Path, data) // it was accepted
	}
}

// since compares with the verdict of the kubelet before.
func (k *kubeletVerdict) since(before *kubeletVerdict) {
	if before == nil || k.pod == nil || before.pod == nil {
		return
	}
	k.UIDChanges = k.pod.UID != before.pod.UID
	a, b := before.pod.DeepCopy(), k.pod.DeepCopy()
	for _, pod := range []*v1.Pod{a, b} {
		pod.UID = ""
		delete(pod.Annotations, "kubernetes.io/config.hash")
	}
	k.Differs = poddiff.Compare(a, b)
}

func printKubelets(w io.Writer, output string, rows []*kubeletVerdict) error {
	if output != "" {
		return cli.PrintObject(w, output, rows)
	}
	table := make([][]string, len(rows))
	var lines []string
	for i, row := range rows {
		upgrade := ""
		if row.UIDChanges {
			upgrade = "restarts the pod"
		}
		table[i] = []string{row.verdict.File, row.Kubelet, string(row.State), row.UID, upgrade}
		for _, line := range verdictLines(&row.verdict)[1:] {
			lines = append(lines, fmt.Sprintf("kubelet %s: %s", row.Kubelet, line))
		}
		if row.State != v1alpha1.ManifestAccepted && len(verdictLines(&row.verdict)) == 1 {
			lines = append(lines, fmt.Sprintf("kubelet %s: %s: %s", row.Kubelet, row.verdict.File, row.Message))
		}
		for _, change := range row.Differs {
			lines = append(lines, fmt.Sprintf("kubelet %s: %s: differs from the one before: %s", row.Kubelet, row.verdict.File, change))
		}
	}
	if err := cli.PrintTable(w, []string{"MANIFEST", "KUBELET", "VERDICT", "UID", "UPGRADE"}, table); err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, cli.Cell(line)); err != nil {
			return err
		}
	}
	return nil
}
