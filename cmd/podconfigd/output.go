package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podconfigd/podconfigd/internal/objectyaml"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// checkOutput returns an error if the format is not a known one. "" is the table.
func checkOutput(format string, known ...string) error {
	if format == "" || slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("--output: unknown format %q: expected one of %s", format, strings.Join(known, ", "))
}

// printObject prints an object as json or yaml.
func printObject(w io.Writer, format string, v any) error {
	if format == "yaml" {
		data, err := objectyaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return printJSON(w, v, "    ")
}

// printJSON prints an object as JSON. What is not printable is escaped, and all values stay the same.
func printJSON(w io.Writer, v any, indent string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.JSON(text.String(), "\n"))
	return err
}

// cell returns the text for a table cell.
func cell(text string) string { return printable.Escape(text) }

// cells joins the row's cells.
func cells(row []string) string {
	clean := make([]string, len(row))
	for i, text := range row {
		clean[i] = cell(text)
	}
	return strings.Join(clean, "\t")
}

func age(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return duration.HumanDuration(time.Since(*t))
}
