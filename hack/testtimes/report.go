package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// own is the module whose packages have a line each.
const own = "github.com/podconfigd/podconfigd"

// action is what this program needs of an action of the go command.
type action struct {
	Mode, Package string
	// CmdUser and CmdSys are in nanoseconds. They are absent if the result was cached.
	CmdUser, CmdSys int64
}

// row is the line of a package, or of a module. Times are in seconds.
type row struct {
	name                        string
	compile, link, run, elapsed float64
}

func (r *row) sum() float64 { return r.compile + r.link + r.run }

// table has rows by name.
type table map[string]*row

func (t table) row(name string) *row {
	if t[name] == nil {
		t[name] = &row{name: name}
	}
	return t[name]
}

// report prints the tables of a folder.
func report(w io.Writer, folder string) error {
	packages, modules := table{}, table{}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := addActions(packages, modules, file); err != nil {
			return err
		}
	}
	if err := addRuns(packages, filepath.Join(folder, "runs")); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "compile\tlink\trun\telapsed\t  package (processor time in seconds; elapsed is of the run)")
	packages.print(out)
	_, _ = fmt.Fprintln(out, "\t\t\t\t  other modules, and how they are compiled")
	modules.print(out)
	return out.Flush() // it has the errors of the lines before
}

// print prints the rows that took longest first, and their sum.
func (t table) print(w io.Writer) {
	rows := make([]*row, 0, len(t))
	total := &row{name: "total"}
	for _, r := range t {
		rows = append(rows, r)
		total.compile, total.link, total.run = total.compile+r.compile, total.link+r.link, total.run+r.run
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Or(cmp.Compare(b.sum(), a.sum()), cmp.Compare(a.name, b.name)) })
	for _, r := range append(rows, total) {
		_, _ = fmt.Fprintf(w, "%.1f\t%.1f\t%.1f\t%.1f\t  %s\n", r.compile, r.link, r.run, r.elapsed, r.name)
	}
}

// addActions adds the actions of a file. Its name without ".json" is how the packages are compiled.
func addActions(packages, modules table, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var actions []action
	if err := json.Unmarshal(data, &actions); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	how := strings.TrimSuffix(filepath.Base(file), ".json")
	for _, a := range actions {
		seconds := float64(a.CmdUser+a.CmdSys) / 1e9
		if seconds == 0 {
			continue
		}
		name, isOwn := ownPackage(a.Package)
		r := packages.row(name)
		if !isOwn {
			r = modules.row(module(a.Package) + ", " + how)
		}
		if a.Mode == "link" {
			r.link += seconds
		} else {
			r.compile += seconds
		}
	}
	return nil
}

// ownPackage returns the folder of a package of this module, or of its test.
func ownPackage(path string) (folder string, ok bool) {
	path, _, _ = strings.Cut(path, " ") // "a/b [a/b.test]"
	path = strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
	if path == own {
		return ".", true
	}
	return strings.CutPrefix(path, own+"/")
}

// module returns the beginning of a package's path that is about its module: the standard library
// is one.
func module(path string) string {
	path, _, _ = strings.Cut(path, " ")
	parts := strings.Split(path, "/")
	n := 2
	switch {
	case !strings.Contains(parts[0], "."):
		return "std"
	case parts[0] == "github.com":
		n = 3
	}
	return strings.Join(parts[:min(n, len(parts))], "/")
}

// addRuns adds the executions of a file.
func addRuns(packages table, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var e execution
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		folder, err := filepath.Rel(root, e.Folder)
		if err != nil {
			return err
		}
		r := packages.row(folder)
		r.run, r.elapsed = r.run+e.Processor, r.elapsed+e.Elapsed
	}
	return lines.Err()
}
