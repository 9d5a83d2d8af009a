package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podconfigd/podconfigd/internal/objectyaml"
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
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "    ")
	return encoder.Encode(v)
}

// cell returns the text for a table cell. It escapes control characters as Go does,
// because they can move the cursor of the terminal or break the row.
func cell(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var escaped strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			escaped.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

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
