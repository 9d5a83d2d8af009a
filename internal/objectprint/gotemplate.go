package objectprint

import (
	"encoding/base64"
	"fmt"
	"io"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"
)

// goTemplate prints with a Go template, as the printer of cli-runtime. Its templates can't call
// methods, which JSON does not have. docs/adr/0012-a-binary-without-unused-methods.md says why.
type goTemplate struct {
	raw      string
	template *template.Template
}

func newGoTemplate(raw string) (printers.ResourcePrinter, error) {
	functions := template.FuncMap{"exists": exists, "base64decode": base64decode}
	t, err := template.New("output").Funcs(functions).Option("missingkey=default").Parse(raw)
	if err != nil {
		return nil, err
	}
	return &goTemplate{raw, t}, nil
}

// PrintObj prints an object. If the template fails, it prints what the template had too.
//
// kubectl: GoTemplatePrinter in k8s.io/cli-runtime/pkg/printers.
func (p *goTemplate) PrintObj(object runtime.Object, w io.Writer) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var value map[string]any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	if err := p.template.Execute(w, value); err != nil {
		_, _ = fmt.Fprintf(w, "Error executing template: %v. Printing more information for debugging the template:\n"+
			"\ttemplate was:\n\t\t%s\n\traw data was:\n\t\t%s\n\tobject given to template engine was:\n\t\t%+v\n\n",
			err, p.raw, data, value) // the error of the template is the one to report
		return fmt.Errorf("error executing template %q: %w", p.raw, err)
	}
	return nil
}

// exists reports whether the item has something at the indices, each that of a map, a slice or a
// string.
func exists(item any, indices ...any) bool {
	for _, i := range indices {
		switch v := item.(type) {
		case map[string]any:
			key, ok := i.(string)
			if !ok {
				return false
			}
			item = v[key]
		case []any:
			n, ok := i.(int)
			if !ok || n < 0 || n >= len(v) {
				return false
			}
			item = v[n]
		case string:
			n, ok := i.(int)
			if !ok || n < 0 || n >= len(v) {
				return false
			}
			item = v[n]
		default:
			return false
		}
	}
	return item != nil
}

func base64decode(s string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("base64 decode failed: %w", err)
	}
	return string(data), nil
}
