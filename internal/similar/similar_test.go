package similar

import (
	"cmp"
	"slices"
	"testing"
)

// A name that has nothing in common with the known ones is similar to none.
func TestTo(t *testing.T) {
	known := []string{"e", "web", "socketGroup"}
	for name, want := range map[string]string{
		"wbe": "web", "WEB": "web", "socketGruop": "socketGroup", "socketgroups": "socketGroup",
		"e": "e", "/": "", "*": "", "": "", "db": "",
	} {
		t.Run(cmp.Or(name, "empty"), func(t *testing.T) {
			if got := To(name, slices.Values(known)); got != want {
				t.Errorf("%q: got %q, want %q", name, got, want)
			}
		})
	}
}
