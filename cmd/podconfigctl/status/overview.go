package status

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// overview returns the status of the daemon. What is wrong comes first.
func overview(s *v1alpha1.Status) *page {
	p := new(page)
	if problems := problemsOf(s); len(problems) > 0 {
		p.label(bad, "Health:", strings.Join(problems, ", "))
	} else {
		p.label(good, "Health:", "ok")
	}
	p.label(normal, "Node:", s.NodeName)
	p.label(normal, "Instance:", s.Instance)
	p.label(normal, "Revision:", fmt.Sprintf("%d (resumable from %d)", s.Revision, s.Compacted))
	p.label(normal, "Ready:", strconv.FormatBool(s.Ready))
	p.label(normal, "Pods:", strconv.Itoa(s.Pods))
	p.label(normal, "Up:", cli.Age(&s.StartTime))
	if k := s.Kubelet; k != nil {
		p.label(kubeletSeverity(k), "Kubelet:", kubeletText(k))
		if k.PodsAPI != nil {
			addPodsAPI(p, k.PodsAPI)
		}
	}
	if s.State != nil {
		p.label(storedSeverity(s.State), "Stored:", stored(s.State))
	}
	if o := s.Owners; o != nil && ownersText(o) != "" {
		severity := normal
		if o.LastError != "" {
			severity = warning
		}
		p.label(severity, "Owners:", ownersText(o))
	}
	if d := s.Devices; d != nil {
		severity := normal
		if d.LastError != "" {
			severity = warning
		}
		p.label(severity, "Devices:", devicesText(d))
	}
	sections := []*page{sourcesSection(s)}
	for i := range s.Sources {
		sections = append(sections, manifestsSection(&s.Sources[i]))
	}
	if s.Runtime != nil {
		sections = append(sections, runtimeSection(s.Runtime))
	}
	if s.MirrorPods != nil {
		sections = append(sections, mirrorPodsSection(s.MirrorPods))
	}
	// A section with an error comes before one with a warning, and that before the others.
	slices.SortStableFunc(sections, func(a, b *page) int { return urgency(b) - urgency(a) })
	for _, section := range append(sections, subscribersSection(s)) {
		if len(section.lines) > 0 {
			p.gap()
			p.lines = append(p.lines, section.lines...)
		}
	}
	return p
}

// problemsOf returns what is wrong. A daemon of an earlier version does not say it.
func problemsOf(s *v1alpha1.Status) []string {
	if len(s.Problems) > 0 {
		return s.Problems
	}
	return mend.Problems(s)
}

// kubeletText says which kubelet's rules are followed, and how it was found.
func kubeletText(k *v1alpha1.KubeletStatus) string {
	how := map[string]string{
		"flag": "as configured", "sandboxes": "found by what runs", "podsAPI": "found by its Pods API", "mirrorPods": "found by its mirror pods",
		"node": "as the Node says", "state": "the rules of the last run", "base": "not known, the newest rules",
	}[k.Source]
	text := fmt.Sprintf("%s (%s)", k.Version, cmp.Or(how, k.Source))
	if k.Source == "base" {
		text = "unknown: the rules of " + k.Rules + " are used"
	}
	if k.Detail != "" {
		text += ": " + k.Detail
	}
	return text
}

// kubeletSeverity is an error if static pods run under other UIDs.
func kubeletSeverity(k *v1alpha1.KubeletStatus) severity {
	if k.OtherUIDs > 0 {
		return bad
	}
	return normal
}

// urgency is 2 for a page with an error, 1 for one with a warning, and 0 for all others.
func urgency(p *page) (most int) {
	for _, line := range p.lines {
		switch line.severity {
		case bad:
			return 2
		case warning:
			most = 1
		}
	}
	return most
}

func sourcesSection(s *v1alpha1.Status) *page {
	p := new(page)
	rows := make([]tableRow, len(s.Sources))
	for i := range s.Sources {
		source := &s.Sources[i]
		rows[i] = tableRow{cells: sourceRow(source)}
		switch {
		case source.Degraded || !source.Seen:
			rows[i].severity = bad
		case source.File != nil && source.File.Absent:
			rows[i].severity = warning
		}
	}
	slices.SortStableFunc(rows, moreSevere)
	p.table([]string{"SOURCE", "SEEN", "PODS", "CHANGED", "STATE"}, rows)
	return p
}

func manifestsSection(source *v1alpha1.SourceStatus) *page {
	p := new(page)
	shown, omitted := mend.Manifests(source)
	if len(shown) == 0 {
		return p
	}
	rows := make([]tableRow, len(shown))
	for i := range shown {
		m := &shown[i]
		rows[i] = tableRow{cells: manifestRow(m)}
		switch {
		case m.State == v1alpha1.ManifestIgnored:
		case m.State != v1alpha1.ManifestAccepted:
			rows[i].severity = bad
		case len(m.Warnings) > 0:
			rows[i].severity = warning
		}
	}
	slices.SortStableFunc(rows, moreSevere)
	p.table([]string{"MANIFEST", "STATE", "POD", "MESSAGE"}, rows)
	for _, state := range slices.Sorted(maps.Keys(omitted)) {
		p.addLine(normal, "and %d more %s", omitted[state], state)
	}
	return p
}

// moreSevere orders rows: first errors, then warnings.
func moreSevere(a, b tableRow) int { return int(b.severity) - int(a.severity) }

func subscribersSection(s *v1alpha1.Status) *page {
	p := new(page)
	if len(s.Subscribers) == 0 {
		return p
	}
	rows := make([]tableRow, len(s.Subscribers))
	for i := range s.Subscribers {
		sub := &s.Subscribers[i]
		rows[i].cells = []string{
			fmt.Sprint(sub.ID), cmp.Or(cli.Address(sub), fmt.Sprint(sub.PID)), sub.UserAgent, string(sub.Mode), fmt.Sprint(sub.Lag), fmt.Sprint(sub.Resets), cli.Age(&sub.Since),
		}
	}
	p.table([]string{"SUBSCRIBER", "CLIENT", "AGENT", "MODE", "LAG", "RESETS", "AGE"}, rows)
	return p
}

func storedSeverity(s *v1alpha1.StateStatus) severity {
	if s.Stored && s.LastError == "" {
		return normal
	}
	return bad
}

// stored describes where the journal is stored, or since when it is not.
func stored(s *v1alpha1.StateStatus) string {
	if !s.Stored {
		return fmt.Sprintf("no, for %s: %s", cli.Age(s.FailedSince), s.LastError)
	}
	files := "files"
	if s.Segments == 1 {
		files = "file"
	}
	text := fmt.Sprintf("%s (%d %s, %d KiB)", s.Dir, s.Segments, files, (s.Bytes+1023)/1024)
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return text
}

func sourceRow(source *v1alpha1.SourceStatus) []string {
	state := "ok"
	if f := source.File; f != nil {
		state = f.Path + ", " + f.Watch
		if f.WatchError != "" {
			state += ": " + f.WatchError
		}
		if f.Absent {
			state += "; the path does not exist yet"
		}
	}
	if source.HTTP != nil {
		state = source.HTTP.URL
	}
	if source.API != nil {
		state = apiserverState(source.API)
	}
	if source.Degraded {
		held := "degraded, keeping the last pods"
		if !source.Seen && !source.Restored {
			held = "degraded, no pods read yet"
		}
		state += "; " + held + ": " + source.LastError
		if source.DegradedSince != nil {
			state += " (since " + source.DegradedSince.Local().Format(time.DateTime) + ")"
		}
	}
	seen := strconv.FormatBool(source.Seen)
	if source.Restored && !source.Seen {
		seen = "restored"
	}
	return []string{source.Name, seen, fmt.Sprint(source.Pods), cli.Age(source.LastChange), state}
}

func apiserverState(api *v1alpha1.APIStatus) string {
	state := api.Server
	switch {
	case api.Connected:
		state += ", watching"
	case api.NodeKnown:
		state += ", not connected"
	default:
		state += "; waiting until the apiserver has the node"
	}
	heard := api.LastEvent
	if heard == nil || api.LastList != nil && api.LastList.After(*heard) {
		heard = api.LastList
	}
	if heard != nil {
		state += ", last heard " + cli.Age(heard) + " ago"
	}
	return fmt.Sprintf("%s, %d relists, %d watch restarts", strings.TrimLeft(state, ";, "), api.Relists, api.WatchRestarts)
}

// maxNameInTable is the length of a file name in bytes, beyond which its end is left out: each line of the table is as long as the
// longest name.
const maxNameInTable = 64

func manifestRow(m *v1alpha1.Manifest) []string {
	pod := "<none>"
	if m.Name != "" {
		pod = m.Namespace + "/" + m.Name
	}
	message := m.Message
	for _, warning := range m.Warnings {
		if message != "" {
			message += "; "
		}
		message += "warning: " + warning
	}
	name := "<none>"
	if m.Path != "" {
		name = printable.Cut(filepath.Base(m.Path), maxNameInTable)
	}
	return []string{name, string(m.State), pod, message}
}
