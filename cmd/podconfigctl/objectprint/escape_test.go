package objectprint

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// On a terminal, no format prints a value with escape sequences or invisible characters.
func TestFormatsOnATerminal(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "x\x1b[31m\u009b2J\u202e\x7f\r"},
	}}
	for format, want := range map[string]string{
		"name":                               `pod/x\x1b[31m\u009b2J\u202e\x7f\r` + "\n",
		"jsonpath={.metadata.name}{\"\\n\"}": `x\x1b[31m\u009b2J\u202e\x7f\r` + "\n",
		"jsonpath-as-json={.metadata.name}":  "[\n    \"x" + `\u001b[31m\u009b2J\u202e\u007f\r"` + "\n]\n",
		"json":                               "", "yaml": "", "kyaml": "",
	} {
		t.Run(format, func(t *testing.T) {
			p, err := New(format, Options{Terminal: true})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			_ = p.PrintObj(object, &out)
			if got := out.String(); !printable.Is(got, "\n\t") || got == "" || want != "" && got != want {
				t.Errorf("%s: got %q, want %q", format, got, want)
			}
		})
	}
}
