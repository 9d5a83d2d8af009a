// Package printable makes text of others safe for a terminal.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Escape escapes what is not printable as Go does. Control characters can move the cursor or
// break the row, and invisible characters can reverse or hide text.
func Escape(text string) string { return EscapeBut(text, "") }

// EscapeBut is Escape that leaves the characters in keep as they are.
func EscapeBut(text, keep string) string {
	escapes := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) }
	if !strings.ContainsFunc(text, escapes) {
		return text
	}
	var escaped strings.Builder
	for _, r := range text {
		if escapes(r) {
			escaped.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}
