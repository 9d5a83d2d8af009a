package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// CheckOutput returns an error if the format is not a known one. "" is the table.
func CheckOutput(format string, known ...string) error {
	if format == "" || slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("--output: unknown format %q: expected one of %s", format, strings.Join(known, ", "))
}

// PrintObject prints an object as json or yaml.
func PrintObject(w io.Writer, format string, v any) error {
	if format == "yaml" {
		data, err := printable.YAML(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return printJSON(w, v, "    ")
}

// PrintLine prints one of the objects of a stream: json as a line, yaml as a document.
func PrintLine(w io.Writer, format string, v any) error {
	if format == "json" {
		return printJSON(w, v, "")
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return PrintObject(w, format, v)
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
