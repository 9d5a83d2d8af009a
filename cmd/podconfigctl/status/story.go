package status

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// severities are those of the health of a pod.
var severities = map[v1alpha1.Health]severity{
	v1alpha1.Healthy: good, v1alpha1.Progressing: warning, v1alpha1.Unknown: warning, v1alpha1.Unhealthy: bad,
}

// storyPage returns the story of a pod or a manifest.
func storyPage(s *v1alpha1.Story) *page {
	p := new(page)
	p.label(severities[s.Health], "Health:", string(s.Health)+": "+s.Summary)
	for i, fix := range s.Fix {
		name := "Fix:"
		if i > 0 {
			name = ""
		}
		p.label(normal, name, fix)
	}
	if s.Name != "" {
		p.label(normal, "Pod:", s.Namespace+"/"+s.Name)
	}
	if m := s.Manifest; m != nil {
		place := manifestPlace(m, s.Source != nil && s.Source.File != nil)
		if s.Line > 0 && m.Path != "" {
			place += ":" + strconv.Itoa(s.Line)
		}
		p.label(verdictSeverity(m), "Manifest:", fmt.Sprintf("%s, %s", place, strings.TrimSuffix(string(m.State)+" ("+m.Reason+")", " ()")))
		for _, text := range m.Warnings {
			p.label(warning, "Warning:", text)
		}
	}
	if s.Source != nil {
		row := sourceRow(s.Source)
		p.label(sourceSeverity(s.Source), "Source:", s.Source.Name+": "+row[len(row)-1])
	}
	if s.MirrorProblem != "" {
		p.label(warning, "Mirror:", s.MirrorProblem)
	}
	if s.Pod != nil {
		addPod(p, s.Pod)
	}
	addOthers(p, s)
	addChanges(p, s)
	if len(s.Unanswered) > 0 {
		p.gap()
		for _, text := range s.Unanswered {
			p.label(warning, "Unknown:", text)
		}
	}
	return p
}

// StoryLines returns the lines that the command prints for a pod or a manifest, each with the SGR code of its color. The
// code is empty for a line without a color.
func StoryLines(s *v1alpha1.Story) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, line := range storyPage(s).lines {
			if !yield(line.text, sgr[line.severity]) {
				return
			}
		}
	}
}

// manifestPlace returns where a manifest is. An item of a manifest URL has no path. That of a file is missing if the access
// rules hide it.
func manifestPlace(m *v1alpha1.Manifest, ofFile bool) string {
	if ofFile {
		return cmp.Or(m.Path, "<hidden>")
	}
	return cmp.Or(m.Path, "an item of the list")
}

func verdictSeverity(m *v1alpha1.Manifest) severity {
	if m.State == v1alpha1.ManifestAccepted {
		return normal
	}
	return bad
}

func sourceSeverity(s *v1alpha1.SourceStatus) severity {
	if s.Degraded || !s.Seen {
		return bad
	}
	return normal
}

func addPod(p *page, pod *v1alpha1.StoryPod) {
	if pod.Revision > 0 {
		p.label(normal, "Revision:", strconv.FormatInt(pod.Revision, 10))
	}
	p.label(normal, "UID:", pod.UID)
	p.label(normal, "Seen:", cli.Age(pod.Seen)+" ago")
	if pod.Deleting != nil {
		p.label(warning, "Deleted:", pod.Deleting.Local().Format(time.DateTime))
	}
	p.label(normal, "Status:", fmt.Sprintf("%s, %s ready, %s restarts%s", pod.Status, pod.Ready, pod.Restarts, statusBy(pod.StatusBy)))
	if len(pod.PodIPs) > 0 {
		p.label(normal, "IP:", strings.Join(pod.PodIPs, ", "))
	}
	if pod.Sandbox != nil {
		p.label(normal, "Sandbox:", "created "+cli.Age(pod.Sandbox)+" ago")
	}
	rows := make([]tableRow, len(pod.Containers))
	for i := range pod.Containers {
		rows[i] = containerRow(&pod.Containers[i])
	}
	p.gap()
	p.table([]string{"CONTAINER", "STATE", "READY", "RESTARTS", "SINCE", "IMAGE", "MESSAGE"}, rows)
}

func containerRow(c *v1alpha1.StoryContainer) tableRow {
	name, state, s := c.Name, cmp.Or(c.State, "<unknown>"), normal
	if c.Init {
		name += " (init)"
	}
	if c.ExitCode != nil {
		state += fmt.Sprintf(" (%d)", *c.ExitCode)
		if *c.ExitCode != 0 {
			s = bad
		}
	}
	if c.Reason != "" {
		state += ": " + c.Reason
	}
	message := c.Message
	if c.LastExitCode != nil {
		if message != "" {
			message += "; "
		}
		message += strings.TrimSuffix(fmt.Sprintf("before: exit code %d (%s)", *c.LastExitCode, c.LastReason), " ()")
	}
	return tableRow{[]string{name, state, strconv.FormatBool(c.Ready), strconv.Itoa(c.Restarts), cli.Age(c.Since), c.Image, message}, s}
}

// addOthers adds the other manifests and pods of the same name.
func addOthers(p *page, s *v1alpha1.Story) {
	rows := make([]tableRow, 0, len(s.OtherManifests)+len(s.OtherPods))
	for i := range s.OtherManifests {
		m := &s.OtherManifests[i]
		rows = append(rows, tableRow{[]string{manifestPlace(&m.Manifest, strings.HasPrefix(m.Source, "file")), m.Source, string(m.State), m.Message}, verdictSeverity(&m.Manifest)})
	}
	for i := range s.OtherPods {
		other := &s.OtherPods[i]
		kind := "pod"
		if other.Mirror {
			kind = "mirror pod"
		}
		rows = append(rows, tableRow{cells: []string{kind + " " + other.UID, other.Source, other.Status, ""}})
	}
	if len(rows) > 0 {
		p.gap()
		p.table([]string{"ALSO OF THIS NAME", "SOURCE", "STATE", "MESSAGE"}, rows)
	}
}

// addChanges adds the last changes of the pod.
func addChanges(p *page, s *v1alpha1.Story) {
	if len(s.Changes) == 0 {
		return
	}
	known := make(cli.Owners)
	rows := make([]tableRow, len(s.Changes))
	for i := range s.Changes {
		change := &s.Changes[i]
		columns := known.Columns(change)
		// Without the pod and the mode.
		rows[i].cells = []string{columns[0], columns[1], columns[2], columns[4], columns[5], cli.ChangeOf(change)}
	}
	p.gap()
	p.table([]string{"CHANGE", "OP", "SOURCE", "FILE", "OWNER", "CHANGED"}, rows)
}

// manifestNames returns the names of the manifests of the daemon for a completion.
func manifestNames(flags *cli.ClientFlags) (names []string) {
	flags.Ask(func(ctx context.Context, c *client.Client) {
		status, err := c.Status(ctx)
		if err != nil {
			return
		}
		for i := range status.Sources {
			shown, _ := mend.Manifests(&status.Sources[i])
			for j := range shown {
				if shown[j].Path != "" {
					names = append(names, filepath.Base(shown[j].Path))
				}
			}
		}
	})
	return names
}
