// Package printable makes text of others safe for a terminal and for a log.
package printable

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Escape escapes what is not printable as Go does. Control characters can move the cursor or
// break the row, and invisible characters can reverse or hide text.
func Escape(text string) string { return EscapeBut(text, "") }

// EscapeBut is Escape that leaves the characters in keep as they are.
func EscapeBut(text, keep string) string {
	return escape(text, keep, func(r rune) string { return strings.Trim(strconv.QuoteRune(r), "'") })
}

// JSON is EscapeBut for JSON, and escapes as JSON does: all values stay the same.
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

// Is reports whether the text has nothing to escape but the characters in keep.
func Is(text, keep string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return escapes(r, keep) })
}

func escapes(r rune, keep string) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) }

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

// Writer returns a writer that escapes each text but line breaks and tabs.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, EscapeBut(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}
