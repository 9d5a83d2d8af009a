package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// ellipsis marks text that is cut.
const ellipsis = "…"

// clean returns the text without what could change the terminal.
func clean(text string) string { return printable.Escape(text) }

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
	style ansi.Style
}

// wrap cuts spans into lines of the width.
func wrap(width int, spans ...span) [][]span {
	lines := [][]span{nil}
	left := width
	for _, s := range spans {
		for s.text != "" {
			text := ansi.Truncate(s.text, left, "")
			if text == "" && left == width {
				return lines // not even one character fits
			}
			s.text = strings.TrimPrefix(s.text, text)
			left -= ansi.StringWidth(text)
			last := len(lines) - 1
			lines[last] = append(lines[last], span{text, s.style})
			if s.text != "" {
				lines = append(lines, nil)
				left = width
			}
		}
	}
	return lines
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
		b.WriteString(s.style.Styled(text))
	}
	return b.String()
}

// styles are the styles of the view. They use the 16 colors of the terminal, which fit its
// background. All meaning is also in the text.
type styles struct {
	dim, title, focused, good, warn, bad, accent ansi.Style
}

func newStyles() *styles {
	bold := ansi.NewStyle().Bold()
	return &styles{
		dim:     ansi.NewStyle().Faint(),
		title:   bold,
		focused: bold.ForegroundColor(ansi.Cyan),
		good:    ansi.NewStyle().ForegroundColor(ansi.Green),
		warn:    ansi.NewStyle().ForegroundColor(ansi.Yellow),
		bad:     ansi.NewStyle().ForegroundColor(ansi.Red),
		accent:  ansi.NewStyle().ForegroundColor(ansi.Cyan),
	}
}
