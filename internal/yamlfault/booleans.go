package yamlfault

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yes and no are the words that are booleans in YAML 1.1, which the kubelet reads. In YAML 1.2, they
// are texts.
var (
	yes = []string{"y", "yes", "on"}
	no  = []string{"n", "no", "off"}
)

// boolean returns what YAML 1.1 makes of a word. Words are in lower case, in upper case, or have an
// upper-case first letter.
func boolean(word string) (value, ok bool) {
	lower := strings.ToLower(word)
	if word != lower && word[1:] != lower[1:] && word != strings.ToUpper(word) {
		return false, false
	}
	value = slices.Contains(yes, lower)
	return value, value || slices.Contains(no, lower)
}

// Booleans returns a fault for each key and each value that looks like a text, and becomes a boolean.
func (t *Text) Booleans() (found Findings) {
	report := func(n *yaml.Node, path, what string) {
		if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Value == "" || len(n.Value) > len("yes") {
			return
		}
		if value, ok := boolean(n.Value); ok {
			found.Add(func() Fault {
				return Fault{n.Line, path, fmt.Sprintf("YAML 1.1 reads the %s %s as %t: write %q for the text", what, n.Value, value, n.Value)}
			})
		}
	}
	t.each(func(n *yaml.Node, path string) {
		report(n, path, "value")
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			report(n.Content[i], join(path, nameOfKey(n.Content[i])), "key")
		}
	})
	return found
}
