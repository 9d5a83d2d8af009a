package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// checkOutput returns an error where the format is none of those known; "" is the
// table.
func checkOutput(format string, known ...string) error {
	if format == "" || slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("--output: unknown format %q: want one of %s", format, strings.Join(known, ", "))
}

// printObject prints an object as json or yaml.
func printObject(w io.Writer, format string, v any) error {
	if format == "yaml" {
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "    ")
	return encoder.Encode(v)
}

// printTable prints rows in columns, as kubectl does.
func printTable(w io.Writer, header []string, rows [][]string) error {
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func age(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(time.Since(*t))
}
