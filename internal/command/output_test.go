package command

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// JSON and YAML have the value unchanged, in characters that are printable.
func TestControlCharactersInObjects(t *testing.T) {
	const name, escaped = "a\n\x1b[31m\u009b2J\u202e\U000e0001\x7f.yaml", `\u009b2J`
	for command, write := range map[string]func(w io.Writer, format string) error{
		"an object": func(w io.Writer, format string) error {
			return PrintObject(w, format, v1alpha1.LookupPod{Source: name})
		},
		"one of many": func(w io.Writer, format string) error {
			return PrintLine(w, format, &v1alpha1.HistoryRecord{Source: name})
		},
	} {
		for format, unmarshal := range map[string]func([]byte, any) error{
			"json": json.Unmarshal,
			"yaml": func(data []byte, object any) error { return yaml.Unmarshal(data, object) },
		} {
			t.Run(command+" as "+format, func(t *testing.T) {
				var out bytes.Buffer
				if err := write(&out, format); err != nil {
					t.Fatal(err)
				}
				if !printable.Is(out.String(), "\n") || !strings.Contains(out.String(), escaped) {
					t.Errorf("%q", &out)
				}
				object := make(map[string]any)
				if err := unmarshal(out.Bytes(), &object); err != nil || object["source"] != name {
					t.Errorf("%v: the value became %q", err, object["source"])
				}
			})
		}
	}
}
