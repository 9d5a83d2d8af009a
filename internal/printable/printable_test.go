package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Each character is printable afterwards, and JSON still has the value.
func TestEachCharacter(t *testing.T) {
	testutil.Exhaustive(t)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := "a" + string(r) + "b"
		if got := Escape(text); !Is(got, "") || unicode.IsPrint(r) && !blank(r) && got != text {
			t.Fatalf("%U: %q", r, got)
		}
		data := JSON(`"`+text+`"`, "")
		var got string
		if err := json.Unmarshal([]byte(data), &got); !Is(data, "") || r != '"' && r != '\\' && (err != nil || got != text) {
			t.Fatalf("%U: %q became %q, %v", r, data, got, err)
		}
	}
}

// Blank letters and marks are escaped, also in YAML.
func TestBlank(t *testing.T) {
	for text, want := range map[string]string{"web\u3164": `web\u3164`, "web\ufe0f": `web\ufe0f`, "w\u115feb": `w\u115feb`, "приложение": "приложение"} {
		yaml, err := YAML(map[string]string{"a": text})
		if got := Escape(text); got != want || err != nil || !strings.Contains(string(yaml), want) {
			t.Errorf("%q: %s, %s, %v", text, got, yaml, err)
		}
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	text := "a\tb\x1b[31m\r\u009b\u202e\u200b\ufeff\x9b приложение\n"
	if n, err := fmt.Fprint(Writer(&out), text); n != len(text) || err != nil {
		t.Errorf("%d of %d, %v", n, len(text), err)
	}
	want := "a\tb" + `\x1b[31m\r\u009b\u202e\u200b\ufeff` + "\ufffd приложение\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Escape("\x9b"); strings.Contains(got, "\x9b") {
		t.Errorf("a byte that is no UTF-8 stays: %q", got)
	}
}
