package top

import (
	"strconv"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// ellipsis marks text that is cut.
const ellipsis = "…"

// clean escapes what is not printable as Go does. Control characters can move the cursor,
// and invisible characters can reverse or hide text.
func clean(text string) string {
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

// fit cuts or pads text to the width in cells.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, ellipsis)
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// span is text in a style.
type span struct {
	text  string
	style *lipgloss.Style
}

// line joins spans and cuts them at the width. The text must be clean.
func line(width int, spans ...span) string {
	var b strings.Builder
	for _, s := range spans {
		if width <= 0 {
			break
		}
		text := ansi.Truncate(s.text, width, ellipsis)
		width -= ansi.StringWidth(text)
		b.WriteString(s.style.Render(text))
	}
	return b.String()
}

// styles are the styles of the view. They use the 16 colors of the terminal, which fit its
// background. All meaning is also in the text.
type styles struct {
	plain, dim, title, focused, good, warn, bad, accent *lipgloss.Style
}

func newStyles() *styles {
	base := lipgloss.NewStyle()
	style := func(s lipgloss.Style) *lipgloss.Style { return &s }
	return &styles{
		plain:   &base,
		dim:     style(base.Faint(true)),
		title:   style(base.Bold(true)),
		focused: style(base.Bold(true).Foreground(lipgloss.Cyan)),
		good:    style(base.Foreground(lipgloss.Green)),
		warn:    style(base.Foreground(lipgloss.Yellow)),
		bad:     style(base.Foreground(lipgloss.Red)),
		accent:  style(base.Foreground(lipgloss.Cyan)),
	}
}
