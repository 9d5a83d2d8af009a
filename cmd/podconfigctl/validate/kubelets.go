package validate

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// askTimeout is how long validate waits for the daemon on this machine.
const askTimeout = time.Second

// askDaemon returns the status of the daemon on this machine; an empty one if none answers.
func askDaemon(ctx context.Context) *v1alpha1.Status {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := client.New(client.DefaultSocket())
	defer c.CloseIdleConnections()
	status, err := c.Status(ctx)
	if err != nil {
		return new(v1alpha1.Status)
	}
	return status
}

// minors returns the versions of the kubelet to check by. It notes which one it chose.
func (o *Options) minors(status *v1alpha1.Status, notes io.Writer) ([]manifest.Minor, error) {
	if o.kubelets != "" {
		minors, err := parseMinors(o.kubelets, notes)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-version: %w", err)
		}
		return minors, nil
	}
	if status.Kubelet != nil {
		if minor, err := manifest.ParseMinor(status.Kubelet.Rules); err == nil && minor.Known() {
			fmt.Fprintf(notes, "By the rules of kubelet %v, as the daemon on this machine\n", minor)
			return []manifest.Minor{minor}, nil
		}
	}
	fmt.Fprintf(notes, "By the rules of kubelet %v, the newest known one\n", manifest.Base)
	return []manifest.Minor{manifest.Base}, nil
}

// parseMinors returns the versions of a list such as 1.34,1.36-1.37, the oldest first. It notes which ones are not known.
func parseMinors(list string, notes io.Writer) (minors []manifest.Minor, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, ok := strings.Cut(strings.ReplaceAll(part, "-v1.", "-1."), "-1.") // a version may have a suffix such as -eks
		if !ok {
			last = first
		} else {
			last = "1." + last
		}
		from, err := manifest.ParseMinor(strings.TrimSpace(first))
		if err != nil {
			return nil, err
		}
		to, err := manifest.ParseMinor(strings.TrimSpace(last))
		if err != nil {
			return nil, err
		}
		if to < from {
			return nil, fmt.Errorf("%q: expected the older version first", part)
		}
		for _, m := range slices.Compact([]manifest.Minor{from, to}) {
			if !m.Known() {
				fmt.Fprintf(notes, "The rules of kubelet %v are not known: those of %v are used\n", m, m.Nearest())
			}
		}
		for m := from.Nearest(); m <= to.Nearest(); m++ {
			minors = append(minors, m)
		}
	}
	slices.Sort(minors)
	return slices.Compact(minors), nil
}

// decode returns the pod of an accepted manifest; nil for another one.
func (o *Options) decode(decoder *manifest.Decoder, v *verdict) (pod *v1.Pod) {
	data, err := o.stdin, error(nil)
	if v.of.File != inStdin {
		data, err = os.ReadFile(v.of.File)
	}
	if err == nil && v.State == v1alpha1.ManifestAccepted {
		pod, _, _ = decoder.DecodeFile(v.Path, data) // it was accepted
	}
	return pod
}

// compare sets the pod, and compares it with that of the kubelet before.
func (v *verdict) compare(pod *v1.Pod, before *verdict) {
	v.pod = pod
	if before == nil || pod == nil || before.pod == nil {
		return
	}
	v.UIDChanges = pod.UID != before.pod.UID
	a, b := before.pod.DeepCopy(), pod.DeepCopy()
	for _, pod := range []*v1.Pod{a, b} {
		pod.UID = ""
		delete(pod.Annotations, "kubernetes.io/config.hash")
	}
	v.Differs = poddiff.Compare(a, b)
}

// row returns the row of a kubelet in the table.
func (v *verdict) row() []string {
	upgrade := ""
	if v.UIDChanges {
		upgrade = "restarts the pod"
	}
	return []string{v.of.File, v.Kubelet, string(v.State), v.UID, upgrade}
}

// lines returns what the row does not say.
func (v *verdict) lines() []string {
	lines := verdictLines(&v.of)
	if v.State != v1alpha1.ManifestAccepted && len(lines) == 1 {
		lines = append(lines, v.of.File+": "+v.Message)
	}
	for _, change := range v.Differs {
		lines = append(lines, v.of.File+": differs from the one before: "+change)
	}
	return lines[1:]
}
