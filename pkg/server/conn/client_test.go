package conn

import (
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		strings.Repeat("x", maxText):       strings.Repeat("x", maxText),
		strings.Repeat("x", maxText+1):     strings.Repeat("x", maxText) + "…",
		"x" + strings.Repeat("é", maxText): "x" + strings.Repeat("é", (maxText-1)/2) + "…",
	} {
		t.Run(text, func(t *testing.T) {
			if got := Cut(text); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
