package printable

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// YAML returns the YAML of an object. Text with characters that are not printable is in double quotes, with these
// characters escaped. So a terminal can show it, and the values stay the same. yaml.Marshal fails for some control characters
// that JSON allows, for example in the name of a file.
func YAML(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var quoted []string // pairs of a word that stands for a text, and the quoted text
	data = literal.ReplaceAllFunc(data, func(l []byte) []byte {
		var text string
		if json.Unmarshal(l, &text) != nil || !strings.ContainsFunc(text, missed) && !strings.Contains(text, mark) {
			return l
		}
		word := fmt.Sprintf("%s%dX", mark, len(quoted)) // no word is the beginning of another
		quote := strconv.Quote
		if strings.ContainsFunc(text, blank) { // Quote keeps them
			quote = strconv.QuoteToASCII
		}
		quoted = append(quoted, word, quote(text))
		return []byte(`"` + word + `"`)
	})
	data, err = yaml.JSONToYAML(data)
	if err != nil || len(quoted) == 0 {
		return data, err
	}
	return []byte(strings.NewReplacer(quoted...).Replace(string(data))), nil
}

// missed reports whether a character is not printable and yaml does not escape it. It does escape those below 0x20.
func missed(r rune) bool { return r >= 0x7f && escapes(r, "") }

// mark is the beginning of the words that stand for texts. A text that contains it is replaced too.
const mark = "EscapedText"

// literal matches a string of JSON.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
