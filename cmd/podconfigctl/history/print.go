package history

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// historyPrinter prints changes.
type historyPrinter interface {
	print(r *v1alpha1.HistoryRecord) error
	// flush prints what is left.
	flush() error
}

func newHistoryPrinter(output string, withDiff bool, w io.Writer) historyPrinter {
	switch {
	case output != "":
		return &recordPrinter{w, output}
	case withDiff:
		return &diffPrinter{w, make(cli.Owners)}
	}
	return &historyTable{
		w: w, owners: make(cli.Owners),
		columns: cli.NewColumns("TIME", "OP", "SOURCE", "POD", "FILE", "OWNER", "MODE", "CHANGED"),
	}
}

// printHistory prints the changes. If there are none, it says so on notes.
func printHistory(p historyPrinter, records iter.Seq2[*v1alpha1.HistoryRecord, error], notes io.Writer) error {
	some := false
	for record, err := range records {
		if err != nil {
			_ = p.flush() // the first error is more important
			return err
		}
		some = true
		if err := p.print(record); err != nil {
			return err
		}
	}
	if !some {
		fmt.Fprintln(notes, "No changes found")
	}
	return p.flush()
}

// lines returns the changes that are printed. In the table and with --diff, an edit of a static pod is one line: its ADD.
// With --last, lines returns only the last changes.
func (o *Options) lines(changes records, newestFirst bool) records {
	shown := func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		for record, err := range changes {
			if record != nil && record.Replaced && o.output == "" {
				continue
			}
			if !yield(record, err) {
				return
			}
		}
	}
	if o.last == 0 {
		return shown
	}
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		var last []*v1alpha1.HistoryRecord
		for record, err := range shown {
			if err != nil {
				yield(nil, err)
				return
			}
			if last = append(last, record); len(last) == o.last {
				break
			}
		}
		if !newestFirst {
			slices.Reverse(last)
		}
		for _, record := range last {
			if !yield(record, nil) {
				return
			}
		}
	}
}

// recordPrinter prints each change as an object.
type recordPrinter struct {
	w      io.Writer
	format string
}

func (p *recordPrinter) print(r *v1alpha1.HistoryRecord) error {
	return command.PrintLine(p.w, p.format, r)
}
func (p *recordPrinter) flush() error { return nil }

// tableRows is the number of rows whose columns are aligned. So a table of any length needs
// little memory.
const tableRows = 1000

// historyTable prints a row for each change.
type historyTable struct {
	w      io.Writer
	owners cli.Owners
	rows   [][]string
	// columns aligns the rows with those before.
	columns *cli.Columns
}

func (t *historyTable) print(r *v1alpha1.HistoryRecord) error {
	t.rows = append(t.rows, append(t.owners.Columns(r), cli.ChangeOf(r)))
	if len(t.rows) < tableRows {
		return nil
	}
	return t.flush()
}

func (t *historyTable) flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	rows := t.rows
	t.rows = nil
	return cli.PrintLines(t.w, t.columns.Lines(rows))
}

// diffPrinter prints a line for each change, and then the difference of the manifests.
type diffPrinter struct {
	w      io.Writer
	owners cli.Owners
}

func (p *diffPrinter) print(r *v1alpha1.HistoryRecord) error {
	row := p.owners.Columns(r)
	if r.Gap != "" {
		row = append(row[:2], r.Gap)
	}
	for i := range row {
		row[i] = cli.Cell(row[i])
	}
	if _, err := fmt.Fprintln(p.w, strings.Join(row, "  ")); err != nil {
		return err
	}
	lines, err := poddiff.Unified(r.Before, r.Pod)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		if _, err := fmt.Fprintln(p.w, cli.Cell(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (p *diffPrinter) flush() error { return nil }
