package watch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

const tableFormat = "%-12s  %-12s  %-6s  %-36s  %s"

// tablePrinter prints a line for each pod of an update.
type tablePrinter struct {
	w      io.Writer
	headed bool
	stream *poddiff.Stream
}

func newTablePrinter(w io.Writer) *tablePrinter {
	return &tablePrinter{w: w, stream: poddiff.NewStream()}
}

func (p *tablePrinter) print(u *v1alpha1.Update) error {
	if !p.headed {
		p.headed = true
		if err := p.line("TIME", "OP", "SOURCE", "POD", "CHANGED"); err != nil {
			return err
		}
	}
	at := "-" // of the current pods, and of a bookmark: the time here is no time of the daemon
	if u.Time != nil {
		at = u.Time.Local().Format("15:04:05.000")
	}
	if u.Reset {
		p.stream.Reset()
	}
	if u.Op == v1alpha1.OpBookmark || len(u.Pods) == 0 {
		return p.row(at, u.Op, u.Source, "-", remark(u))
	}
	for _, pod := range u.Pods {
		about := p.about(u, pod)
		if u.Restored {
			about += " (restored)"
		}
		if err := p.row(at, u.Op, u.Source, pod.Namespace+"/"+pod.Name, about); err != nil {
			return err
		}
	}
	return nil
}

func (p *tablePrinter) row(at string, op v1alpha1.Op, source, pod, changed string) error {
	if source == "" {
		source = "-"
	}
	return p.line(at, op, source, pod, cli.Cell(changed))
}

func (p *tablePrinter) line(columns ...any) error {
	_, err := fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(tableFormat, columns...), " "))
	return err
}

// remark describes an update without pods.
func remark(u *v1alpha1.Update) string {
	switch {
	case u.Reset:
		return "reset: " + u.Message
	case u.Op != v1alpha1.OpBookmark:
		return "no pods"
	}
	var remarks []string
	if u.InitialSyncComplete {
		remarks = append(remarks, "initial sync complete")
	}
	if u.Ready != nil && *u.Ready {
		remarks = append(remarks, "all sources ready")
	} else if u.Ready != nil {
		remarks = append(remarks, "waiting for sources: "+strings.Join(unseen(u.Sources), ", "))
	}
	return strings.Join(append(remarks, fmt.Sprintf("revision %d", u.Revision)), "; ")
}

func unseen(sources map[string]v1alpha1.SourceState) []string {
	var names []string
	for name, s := range sources {
		switch {
		case s.Seen:
		case s.Restored:
			names = append(names, name+" (restored)")
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// about returns the CHANGED column of the pod's line.
func (p *tablePrinter) about(u *v1alpha1.Update, pod *v1.Pod) string {
	switch u.Op {
	case v1alpha1.OpSync:
		return "unchanged"
	case v1alpha1.OpHousekeeping:
		return "not in any source"
	case v1alpha1.OpPLEG:
		return eventSummary(u.Event)
	}
	return p.stream.Take(u.Op, pod).String()
}

// eventSummary describes an event of the runtime.
func eventSummary(e *v1alpha1.Event) string {
	if e == nil {
		return ""
	}
	about := e.Type
	if name := cmp.Or(e.Container, "the sandbox"); e.ContainerID != "" {
		about += ": " + name
	}
	if e.ExitCode != nil {
		about += fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	return about
}
