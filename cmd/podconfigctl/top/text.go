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

// wrap cuts a line, with its styles, into lines of the width.
func wrap(width int, text string) (lines []string) {
	for left := ansi.StringWidth(text); ; {
		line := ansi.Truncate(text, width, "")
		used := ansi.StringWidth(line)
		lines = append(lines, line)
		if left -= used; left <= 0 || used == 0 { // not even one character fits
			return lines
		}
		text = ansi.TruncateLeft(text, used, "")
	}
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
