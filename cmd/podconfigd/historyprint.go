package main

import (
	"fmt"
	"io"
	"iter"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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
	case output == "json":
		return &recordPrinter{func(v any) error { return printJSON(w, v, "") }}
	case output == "yaml":
		return &recordPrinter{func(v any) error {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
			return printObject(w, "yaml", v)
		}}
	case withDiff:
		return &diffPrinter{w, make(owners)}
	}
	return &historyTable{w: w, owners: make(owners)}
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

// recordPrinter prints each change as an object.
type recordPrinter struct{ encode func(any) error }

func (p *recordPrinter) print(r *v1alpha1.HistoryRecord) error { return p.encode(r) }
func (p *recordPrinter) flush() error                          { return nil }

// tableRows is the number of rows whose columns are aligned. So a table of any length needs
// little memory.
const tableRows = 1000

// historyTable prints a row for each change.
type historyTable struct {
	w      io.Writer
	owners owners
	rows   [][]string
}

func (t *historyTable) print(r *v1alpha1.HistoryRecord) error {
	t.rows = append(t.rows, append(t.owners.columns(r), changeOf(r)))
	if len(t.rows) < tableRows {
		return nil
	}
	return t.flush()
}

// changeOf returns the column CHANGED of a change.
func changeOf(r *v1alpha1.HistoryRecord) string {
	changed := poddiff.Summary(r.Changes)
	switch {
	case r.Gap != "":
		return r.Gap
	case r.Replaced:
		return "replaced"
	case len(r.Changes) == 0:
		return ""
	case r.Op == v1alpha1.OpAdd:
		return "recreated: " + changed
	}
	return changed
}

func (t *historyTable) flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	rows := t.rows
	t.rows = nil
	return printTable(t.w, []string{"TIME", "OP", "SOURCE", "POD", "FILE", "OWNER", "MODE", "CHANGED"}, rows)
}

// diffPrinter prints a line for each change, and then the difference of the manifests.
type diffPrinter struct {
	w      io.Writer
	owners owners
}

func (p *diffPrinter) print(r *v1alpha1.HistoryRecord) error {
	row := p.owners.columns(r)
	if r.Gap != "" {
		row = append(row[:2], r.Gap)
	}
	for i := range row {
		row[i] = cell(row[i])
	}
	if _, err := fmt.Fprintln(p.w, strings.Join(row, "  ")); err != nil {
		return err
	}
	if r.Replaced {
		return nil // the ADD has the difference
	}
	lines, err := poddiff.Unified(r.Before, r.Pod)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		if _, err := fmt.Fprintln(p.w, cell(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (p *diffPrinter) flush() error { return nil }

// owners are the names of users and groups, by "u" or "g" and their number.
type owners map[string]string

// columns returns the columns of a change from TIME to MODE.
func (o owners) columns(r *v1alpha1.HistoryRecord) []string {
	at, op, source, pod, path, owner, mode := "-", "GAP", "-", "-", "-", "-", "-"
	if r.Time != nil {
		at = r.Time.Local().Format(time.DateTime)
	}
	if r.Gap == "" {
		op = string(r.Op)
	}
	if r.Source != "" {
		source = r.Source
	}
	if r.Name != "" {
		pod = r.Namespace + "/" + r.Name
	}
	if f := r.File; f != nil {
		path, owner, mode = f.Path, o.user(f.UID)+":"+o.group(f.GID), f.Mode
	}
	return []string{at, op, source, pod, path, owner, mode}
}

// user returns the name of a user, or its number if it has no name here.
func (o owners) user(id uint32) string {
	return o.name("u", id, func(number string) (string, error) {
		u, err := user.LookupId(number)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

func (o owners) group(id uint32) string {
	return o.name("g", id, func(number string) (string, error) {
		g, err := user.LookupGroupId(number)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func (o owners) name(kind string, id uint32, lookup func(string) (string, error)) string {
	number := strconv.FormatUint(uint64(id), 10)
	name, known := o[kind+number]
	if !known {
		var err error
		if name, err = lookup(number); err != nil {
			name = number
		}
		o[kind+number] = name
	}
	return name
}
