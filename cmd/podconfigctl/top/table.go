package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// gap is the space between columns, marker the width of the cursor before a row.
const (
	gap    = 2
	marker = 2
)

// Flexible columns shrink to these widths, the last column first, before columns are left out.
const (
	fairWidth = 68
	leastText = 16
)

// column is a column of a table.
type column struct {
	title string
	// flexible columns shrink where the table is too wide.
	flexible bool
	// optional columns are left out first.
	optional bool
}

// cell is a field of a row. A nil style is plain.
type cell struct {
	text  string
	style ansi.Style
}

// table has the visible rows of a pane.
type table struct {
	columns []column
	rows    [][]cell
}

// add appends a row with clean text.
func (t *table) add(row []cell) {
	for i := range row {
		row[i].text = clean(row[i].text)
	}
	t.rows = append(t.rows, row)
}

// widths returns the width of each column. Flexible columns shrink first, then optional columns
// are left out with the width 0.
func (t *table) widths(width int) []int {
	natural := make([]int, len(t.columns))
	for i, c := range t.columns {
		natural[i] = ansi.StringWidth(c.title)
		for _, row := range t.rows {
			natural[i] = max(natural[i], ansi.StringWidth(row[i].text))
		}
	}
	for i := len(t.columns) - 1; ; i-- {
		widths := t.shrink(slices.Clone(natural), width, fairWidth)
		if excess(widths, width) <= 0 {
			return widths
		}
		for i >= 0 && !t.columns[i].optional {
			i--
		}
		if i < 0 {
			return t.shrink(t.shrink(widths, width, leastText), width, 1)
		}
		natural[i] = 0
	}
}

// shrink shrinks flexible columns to the least width, while the table is too wide.
func (t *table) shrink(widths []int, width, least int) []int {
	for i, c := range slices.Backward(t.columns) {
		if over := excess(widths, width); c.flexible && over > 0 {
			widths[i] = max(min(widths[i], least), widths[i]-over)
		}
	}
	return widths
}

// excess is by how much the columns are wider than the width.
func excess(widths []int, width int) int {
	sum := -gap - width
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

// draw returns the lines of the table, with the header if headed. selected is the row of the
// cursor, or -1.
func (t *table) draw(s *styles, width int, headed bool, selected int) []string {
	if width <= marker {
		return nil
	}
	widths := t.widths(width - marker)
	var lines []string
	if headed {
		header := make([]cell, len(t.columns))
		for i, c := range t.columns {
			header[i] = cell{c.title, s.dim}
		}
		lines = append(lines, strings.Repeat(" ", marker)+drawRow(header, widths, width-marker, false))
	}
	for i, row := range t.rows {
		mark := strings.Repeat(" ", marker)
		if i == selected {
			mark = s.focused.Styled("›") + " "
		}
		lines = append(lines, mark+drawRow(row, widths, width-marker, i == selected))
	}
	return lines
}

// drawRow draws cells in columns. The cells of the selected row are bold.
func drawRow(row []cell, widths []int, width int, selected bool) string {
	var cells []string
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		style := c.style
		if selected {
			style = slices.Clip(style).Bold()
		}
		cells = append(cells, style.Styled(fit(c.text, widths[i])))
	}
	return ansi.Truncate(strings.Join(cells, strings.Repeat(" ", gap)), width, ellipsis)
}

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
