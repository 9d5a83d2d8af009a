// Package objectyaml prints objects as YAML.
package objectyaml

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Marshal returns the YAML of an object. Unlike yaml.Marshal, it accepts text with the control
// characters that JSON allows and YAML does not, as in a name of a file. Text with characters that
// are not printable is in double quotes, with the characters escaped. So the values stay the same,
// and a terminal can show them.
func Marshal(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var quoted []string // a word that replaces the text, and the text
	data = literal.ReplaceAllFunc(data, func(l []byte) []byte {
		var text string
		if json.Unmarshal(l, &text) != nil || !strings.ContainsFunc(text, missed) && !strings.Contains(text, mark) {
			return l
		}
		word := fmt.Sprintf("%s%dX", mark, len(quoted)) // none begins with another
		quoted = append(quoted, word, strconv.Quote(text))
		return []byte(`"` + word + `"`)
	})
	data, err = yaml.JSONToYAML(data)
	if err != nil || len(quoted) == 0 {
		return data, err
	}
	return []byte(strings.NewReplacer(quoted...).Replace(string(data))), nil
}

// missed reports whether YAML has the character as it is, or refuses it. Those below 0x20 are
// escaped.
func missed(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

// mark begins the words that replace texts. A text that has it is replaced too.
const mark = "EscapedText"

// literal matches a string of JSON.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
