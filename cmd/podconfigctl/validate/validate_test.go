package validate

import (
	"bytes"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
)

// A file name and a message can contain anything. It must not reach the terminal unescaped.
func TestControlCharactersInVerdictsAreEscaped(t *testing.T) {
	var out bytes.Buffer
	v := file.Verdict{File: "a\nb.yaml"}
	v.State, v.Reason, v.Message = v1alpha1.ManifestRejected, "NotYAML", "what\x1b\u009b"
	if err := printVerdicts(&out, "", []*verdict{{of: v}}); err != nil {
		t.Fatal(err)
	}
	if want := `a\nb.yaml: Rejected: NotYAML: what\x1b\u009b` + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
