// Package printable makes text of others safe for a terminal.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Escape escapes what is not printable as Go does. Control characters can move the cursor or
// break the row, and invisible characters can reverse or hide text.
func Escape(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var escaped strings.Builder
	for _, r := range text {
		if unprintable(r) {
			escaped.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
