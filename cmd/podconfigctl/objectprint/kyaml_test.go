package objectprint

import (
	"bytes"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestReadBack: objects in YAML and KYAML have the same values when they are read again.
func TestReadBack(t *testing.T) {
	values := map[string]any{}
	for _, text := range []string{
		"\U0001F3F4\U000E0067\U000E007F", "\U0010FFFF\U000E0100", "\u2764\uFE0F", "yes", "0777", "1e3", "null", "---", "a\x00\x1b\x7f\u009b", "\\r", "\n", "",
		"a\r\n\r\nb\r\n", "\r\na", "a\n\u3000b", "a\n\u00a0b", "a\n\vb", "a\n\u0085b", "a\n\u2028b", "a\n b", "a\n\tb", "a\n\\rb", "a\n\\\rb", "a\n\r\\b", "a\n \\\\b", "a\n\\\\b",
	} {
		values[text], values["x"+text] = text, []any{text, map[string]any{"y": text}}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "values": values}}
	for _, format := range []string{"yaml", "kyaml"} {
		p, err := New(format, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := p.PrintObj(object, &out); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		var got map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		have, _ := got["values"].(map[string]any)
		for key, value := range values {
			if !reflect.DeepEqual(have[key], value) {
				t.Errorf("%s: %q: got %q, want %q", format, key, have[key], value)
			}
		}
	}
}
