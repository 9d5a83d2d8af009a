package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An image or a file name can contain anything. It must not reach the terminal unescaped,
// look like another row, or be reversed or hidden by invisible characters.
func TestControlCharactersAreEscaped(t *testing.T) {
	var out bytes.Buffer
	if err := PrintTable(&out, []string{"NAME", "IMAGE"}, [][]string{{"a\tb", "i\x1b[31m\nnext"}, {"приложение", "i:1\u202e\u200b\ufeff"}}); err != nil {
		t.Fatal(err)
	}
	want := `NAME         IMAGE
a\tb         i\x1b[31m\nnext
приложение   i:1\u202e\u200b\ufeff
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
