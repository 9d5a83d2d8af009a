package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

const (
	tableFormat = "%-12s  %-12s  %-6s  %-36s  %s"
	// maxChanges is the maximum number of differences on a line. maxRemoved is the maximum
	// number of removed pods that are kept, to show what their successors changed.
	maxChanges = 3
	maxRemoved = 1000
)

// tablePrinter prints a line for each pod of an update. It keeps the pods that it printed,
// to show what changed.
type tablePrinter struct {
	w       io.Writer
	headed  bool
	present map[types.UID]*v1.Pod
	removed map[types.NamespacedName]*v1.Pod
	now     func() time.Time
}

func newTablePrinter(w io.Writer) *tablePrinter {
	return &tablePrinter{
		w: w, now: time.Now,
		present: make(map[types.UID]*v1.Pod), removed: make(map[types.NamespacedName]*v1.Pod),
	}
}

func (p *tablePrinter) print(u *v1alpha1.Update) error {
	if !p.headed {
		p.headed = true
		if err := p.line("TIME", "OP", "SOURCE", "POD", "CHANGED"); err != nil {
			return err
		}
	}
	at := p.now()
	if u.Time != nil {
		at = u.Time.Local()
	}
	if u.Reset {
		clear(p.present)
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

func (p *tablePrinter) row(at time.Time, op v1alpha1.Op, source, pod, changed string) error {
	if source == "" {
		source = "-"
	}
	return p.line(at.Format("15:04:05.000"), op, source, pod, cell(changed))
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
	return p.changed(u.Op, pod)
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

// changed describes the difference to the last version of the pod, and keeps the pod.
func (p *tablePrinter) changed(op v1alpha1.Op, pod *v1.Pod) string {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before := p.present[pod.UID]
	if op == v1alpha1.OpRemove {
		delete(p.present, pod.UID)
		if len(p.removed) < maxRemoved {
			p.removed[name] = pod
		}
		return ""
	}
	p.present[pod.UID] = pod
	if op == v1alpha1.OpAdd || op == v1alpha1.OpSet {
		if was := p.removed[name]; was != nil {
			delete(p.removed, name)
			return "recreated: " + summary(poddiff.Compare(was, pod))
		}
		return strings.Join(images(pod), ", ")
	}
	if before == nil {
		return ""
	}
	return summary(poddiff.Compare(before, pod))
}

func summary(changes []string) string {
	switch n := len(changes) - maxChanges; {
	case len(changes) == 0:
		return "only the UID"
	case n > 0:
		return strings.Join(changes[:maxChanges], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(changes, "; ")
}
