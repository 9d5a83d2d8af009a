// Package objectprint prints objects in the output formats of kubectl, with the printers of k8s.io/cli-runtime:
//
//	p, err := objectprint.New("jsonpath={.metadata.name}", objectprint.Options{})
//	err = p.PrintObj(pod, os.Stdout)
//
// docs/adr/0010-printers-of-kubectl.md has the reasons.
package objectprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml/kyaml"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// Formats has the output formats. After a format that ends in =, a template or the path of a file follows.
var Formats = []string{
	"name", "json", "yaml", "kyaml", "jsonpath=", "jsonpath-as-json=", "jsonpath-file=",
}

// Options configure a printer.
type Options struct {
	ShowManagedFields bool
	// Terminal means that the output is a terminal. Then the formats that print bare values escape what is not printable.
	Terminal bool
}

// New returns the printer for a format; nil if there is no such format.
//
// kubectl: pkg/cmd/get get_flags.go PrintFlags.ToPrinter.
func New(format string, o Options) (printers.ResourcePrinter, error) {
	name, template, templated := strings.Cut(format, "=")
	known := false
	for _, f := range Formats {
		known = known || f == name || f == name+"="
	}
	switch {
	case !known:
		return nil, nil //nolint:nilnil // there is none
	case plain(name) && templated:
		return nil, fmt.Errorf("format %q: %s has no template", format, name)
	case !plain(name) && template == "":
		return nil, fmt.Errorf("format %q: the template is missing: expected %s=TEMPLATE", format, name)
	}
	if base, ok := strings.CutSuffix(name, "-file"); ok {
		data, err := os.ReadFile(template)
		if err != nil {
			return nil, fmt.Errorf("reading the template: %w", err)
		}
		name, template = base, string(data)
	}
	p, err := printerOf(name, template, o)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	return p, nil
}

func plain(name string) bool {
	return name == "name" || name == "json" || name == "yaml" || name == "kyaml"
}

func printerOf(name, template string, o Options) (printers.ResourcePrinter, error) {
	var p printers.ResourcePrinter
	switch name {
	case "name":
		return o.bare(&printers.NamePrinter{ShortOutput: true}), nil
	case "json":
		p = &escaped{&printers.JSONPrinter{}, printable.JSON}
	case "yaml":
		p = new(yamlPrinter)
	case "kyaml":
		p = &escaped{printers.ResourcePrinterFunc(printKYAML), printable.QuotedYAML}
	default: // jsonpath, jsonpath-as-json
		path, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, err
		}
		path.AllowMissingKeys(true)
		if name == "jsonpath-as-json" {
			path.EnableJSONOutput(true)
			return &escaped{path, printable.JSON}, nil
		}
		return o.bare(path), nil
	}
	if !o.ShowManagedFields {
		p = &printers.OmitManagedFieldsPrinter{Delegate: p}
	}
	return p, nil
}

// escaped escapes what a printer prints, except line breaks and tabs.
type escaped struct {
	printers.ResourcePrinter
	escape func(text, keep string) string
}

// PrintObj prints an object. If the printer fails, PrintObj still prints what the printer wrote before.
func (p *escaped) PrintObj(object runtime.Object, w io.Writer) error {
	var text bytes.Buffer
	failed := p.ResourcePrinter.PrintObj(object, &text)
	if _, err := io.WriteString(w, p.escape(text.String(), "\n\t")); err != nil {
		return err
	}
	return failed
}

// bare returns a printer of bare values. It escapes them for a terminal. A program gets them unchanged, as from kubectl.
func (o Options) bare(p printers.ResourcePrinter) printers.ResourcePrinter {
	if !o.Terminal {
		return p
	}
	return &escaped{p, printable.EscapeBut}
}

// yamlPrinter prints each object as a document of YAML.
//
// kubectl: YAMLPrinter in k8s.io/cli-runtime/pkg/printers.
type yamlPrinter struct{ documents int }

// PrintObj prints an object.
func (p *yamlPrinter) PrintObj(object runtime.Object, w io.Writer) error {
	data, err := printable.YAML(object)
	if err != nil {
		return err
	}
	if p.documents++; p.documents > 1 {
		data = append([]byte("---\n"), data...)
	}
	_, err = w.Write(data)
	return err
}

// escapedTwice finds a line of a text of several lines whose first character is a space of Unicode that the Encoder escapes, such as
// a carriage return: the Encoder writes a second backslash, which makes it two other characters. Before a backslash of the text, it
// writes one space more than the indentation, which is even.
var escapedTwice = regexp.MustCompile(`(?m)^((?:  )*)\\\\`)

// printKYAML prints an object as a document of KYAML. Unlike KYAMLPrinter of k8s.io/cli-runtime, it takes control characters: in the
// JSON, they are escaped.
func printKYAML(object runtime.Object, w io.Writer) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := new(kyaml.Encoder).FromYAML(strings.NewReader(printable.QuotedYAML(string(data), "")), &text); err != nil {
		return err
	}
	_, err = w.Write(escapedTwice.ReplaceAll(text.Bytes(), []byte(`${1} \`)))
	return err
}
