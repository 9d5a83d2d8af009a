package get

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
)

// containerEvent is what happened to a container. Its type is empty in a list.
type containerEvent struct {
	Type   apiwatch.EventType     `json:"type"`
	Object *v1alpha1.PodContainer `json:"object"`
}

// containerPrinter prints containers.
type containerPrinter struct {
	out    io.Writer
	format string
	// events is true if the type of an event is printed.
	events bool
	cells  []func(*v1alpha1.PodContainer) string
	table  *cli.Columns
}

func newContainerPrinter(o *ContainerOptions, owners bool, out io.Writer) *containerPrinter {
	p := &containerPrinter{out: out, format: o.output, events: o.watchEvents && (o.watch || o.watchOnly)}
	var header []string
	if p.events {
		header = append(header, "EVENT")
	}
	for _, column := range []struct {
		name  string
		shown bool
		cell  func(*v1alpha1.PodContainer) string
	}{
		{"NAMESPACE", o.namespace == "", func(c *v1alpha1.PodContainer) string { return c.Pod.Namespace }},
		{"POD", true, func(c *v1alpha1.PodContainer) string { return c.Pod.Name }},
		{"CONTAINER", true, func(c *v1alpha1.PodContainer) string { name, _ := cli.Container(&c.LookupContainer); return name }},
		{"STATE", true, func(c *v1alpha1.PodContainer) string { _, state := cli.Container(&c.LookupContainer); return state }},
		{"RESTARTS", true, func(c *v1alpha1.PodContainer) string { return strconv.Itoa(c.Restarts) }},
		{"AGE", true, func(c *v1alpha1.PodContainer) string { return cli.Age(c.Started) }},
		{"PID", o.output == "wide", func(c *v1alpha1.PodContainer) string { return number(uint64(c.PID)) }},
		{"CGROUP-ID", o.output == "wide", func(c *v1alpha1.PodContainer) string { return number(c.CgroupID) }},
		{"ID", o.output == "wide", func(c *v1alpha1.PodContainer) string { return c.ID }},
		{"SOURCE", o.output == "wide", func(c *v1alpha1.PodContainer) string { return cmp.Or(c.Pod.Source, "<none>") }},
		{"OWNER", o.output == "wide" && owners, func(c *v1alpha1.PodContainer) string { return cli.TopOwner(c.Pod.Owners) }},
	} {
		if column.shown {
			header, p.cells = append(header, column.name), append(p.cells, column.cell)
		}
	}
	if o.noHeaders {
		header = nil
	}
	p.table = cli.NewColumns(header...)
	return p
}

// number returns a number of the kernel. 0 is not known.
func number(n uint64) string {
	if n == 0 {
		return "<none>"
	}
	return strconv.FormatUint(n, 10)
}

// print prints containers, in a table aligned with those before.
func (p *containerPrinter) print(events ...containerEvent) error {
	var rows [][]string
	for _, e := range events {
		var err error
		switch p.format {
		case "json", "yaml":
			if p.events {
				err = command.PrintLine(p.out, p.format, e)
			} else {
				err = command.PrintLine(p.out, p.format, e.Object)
			}
		case "name":
			name, _ := cli.Container(&e.Object.LookupContainer)
			_, err = fmt.Fprintln(p.out, cli.Cell("container/"+e.Object.Pod.Name+"/"+name))
		default:
			rows = append(rows, p.row(e))
		}
		if err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return cli.PrintLines(p.out, p.table.Lines(rows))
}

func (p *containerPrinter) row(e containerEvent) (row []string) {
	if p.events {
		row = append(row, string(e.Type))
	}
	for _, cell := range p.cells {
		row = append(row, cell(e.Object))
	}
	return row
}
