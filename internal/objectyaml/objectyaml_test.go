package objectyaml

import (
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// All characters that JSON can have survive.
func TestControlCharactersAreEscaped(t *testing.T) {
	for r := rune(0); r <= 0x20000; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		want := "a" + string(r) + "b"
		data, err := Marshal(map[string]string{"text": want})
		if err != nil {
			t.Fatalf("%U: %v", r, err)
		}
		var got map[string]string
		if err := yaml.Unmarshal(data, &got); err != nil || got["text"] != want {
			t.Errorf("%U: %q became %q (%v)", r, want, got["text"], err)
		}
	}
}
