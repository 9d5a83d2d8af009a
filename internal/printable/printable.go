// Package printable makes text from others safe to show in a terminal, a log, YAML or a shell:
//
//	fmt.Println(printable.Escape("a\x1b[2Jb")) // a\x1b[2Jb
//
// Control characters can move the cursor or break a row. Invisible characters can hide text or reverse its order.
package printable

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Escape replaces each character that is not printable by an escape sequence of Go.
func Escape(text string) string { return EscapeBut(text, "") }

// EscapeBut is Escape, but keeps the characters in keep.
func EscapeBut(text, keep string) string {
	return escape(text, keep, func(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") })
}

// expression finds the regular expression that the library appends to a rule for names.
var expression = regexp.MustCompile(`, regex used for validation is '[^']*'| \(regex used for validation is '[^']*'\)`)

// Rule returns a message of the library about a rule, without its regular expression.
func Rule(message string) string { return expression.ReplaceAllString(message, "") }

// JSON is EscapeBut with the escape sequences of JSON, for text that is JSON. Its values stay the same.
func JSON(text, keep string) string { return escape(text, keep, quoteJSON) }

func quoteJSON(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// QuotedYAML is EscapeBut with the escape sequences of YAML, for text that has such characters only in double quotes. Its values
// stay the same. YAML has no pairs of surrogates, as JSON has.
func QuotedYAML(text, keep string) string { return escape(text, keep, quoteYAML) }

func quoteYAML(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return quoteJSON(r)
}

// Is reports whether EscapeBut changes nothing.
func Is(text, keep string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return escapes(r, keep) })
}

func escapes(r rune, keep string) bool {
	return (!unicode.IsPrint(r) || blank(r)) && !strings.ContainsRune(keep, r)
}

// blank reports whether a letter or a mark has no shape of its own, for example U+3164 HANGUL FILLER. Such characters make two
// names that look the same.
func blank(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func escape(text, keep string, quote func(rune) string) string {
	if Is(text, keep) {
		return strings.ToValidUTF8(text, "\ufffd") // a byte alone can be a control character too
	}
	var escaped strings.Builder
	for _, r := range text {
		if escapes(r, keep) {
			escaped.WriteString(quote(r))
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// Cut returns at most that many bytes of the text, with an ellipsis if the text is longer. The result does
// not keep the longer text in memory.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// ShellWord returns a text as one word of a shell.
func ShellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Writer returns a writer that escapes what is written, except line breaks and tabs.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, EscapeBut(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

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
