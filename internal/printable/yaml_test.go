package printable

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// All characters that JSON can have survive, and are printable.
func TestYAMLOfEachCharacter(t *testing.T) {
	testutil.Exhaustive(t)
	for r := rune(0); r <= 0xe01ff; r++ {
		switch r {
		case 0x3100: // letters
			r = 0xd7a0
		case 0x10100:
			r = 0xe0000 // which has invisible characters
		}
		if !utf8.ValidRune(r) {
			continue
		}
		want := "a" + string(r) + "b"
		data, err := YAML(map[string]string{"text": want})
		if err != nil {
			t.Fatalf("%U: %v", r, err)
		}
		if !Is(string(data), "\n") {
			t.Errorf("%U: %q", r, data)
		}
		var got map[string]string
		if err := yaml.Unmarshal(data, &got); err != nil || got["text"] != want {
			t.Errorf("%U: %q became %q (%v)", r, want, got["text"], err)
		}
	}
}

// Only texts that need it are quoted, wherever they are, and no text is taken for one of them.
func TestYAMLEscapes(t *testing.T) {
	object := map[string]any{
		"a":       "first\nsecond\tx\n",
		"b":       []string{"\u202e\\ \"x\"\nnext", "EscapedText0X", "\u009b2J"},
		"k\x1b[m": map[string]string{"n": "приложение", "o": "\U000e0001"},
	}
	data, err := YAML(object)
	if err != nil {
		t.Fatal(err)
	}
	want := `a: "first\nsecond\tx\n"
b:
- "\u202e\\ \"x\"\nnext"
- "EscapedText0X"
- "\u009b2J"
"k\e[m":
  "n": приложение
  o: "\U000e0001"
`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
