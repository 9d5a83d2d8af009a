package objectprint

import (
	"bytes"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podconfigd/podconfigd/internal/printable"
)

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
