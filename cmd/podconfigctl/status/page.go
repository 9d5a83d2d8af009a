package status

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
)

// severity is how much attention a line needs. It determines the color.
type severity int

const (
	normal severity = iota
	good
	warning
	bad
	heading
)

// sgr are the codes of the colors and styles.
var sgr = map[severity]string{good: "32", warning: "33", bad: "31", heading: "1"}

// page is text for a terminal, or for a file.
type page struct{ lines []pageLine }

type pageLine struct {
	text     string
	severity severity
}

func (p *page) addLine(s severity, format string, args ...any) {
	p.lines = append(p.lines, pageLine{fmt.Sprintf(format, args...), s})
}

// label adds a line with a name. Characters that are not printable are escaped.
func (p *page) label(s severity, name, text string) { p.addLine(s, "%-10s %s", name, cli.Cell(text)) }

// gap adds an empty line, unless the page is empty.
func (p *page) gap() {
	if len(p.lines) > 0 {
		p.addLine(normal, "")
	}
}

// tableRow is a row with the attention that it needs.
type tableRow struct {
	cells    []string
	severity severity
}

// table adds rows in columns.
func (p *page) table(header []string, rows []tableRow) {
	texts := make([][]string, len(rows))
	for i := range rows {
		texts[i] = rows[i].cells
	}
	for i, line := range cli.NewColumns(header...).Lines(texts) {
		s := heading
		if i > 0 {
			s = rows[i-1].severity
		}
		p.lines = append(p.lines, pageLine{line, s})
	}
}

// write writes the page at once.
func (p *page) write(w io.Writer, colored bool) error {
	var out bytes.Buffer
	for _, line := range p.lines {
		out.WriteString(line.colored(colored))
		out.WriteByte('\n')
	}
	_, err := w.Write(out.Bytes())
	return err
}

func (l pageLine) colored(colored bool) string {
	if code := sgr[l.severity]; colored && code != "" && l.text != "" {
		return "\x1b[" + code + "m" + l.text + "\x1b[0m"
	}
	return l.text
}

// cut returns the page as it fits on a screen.
func (p *page) cut(width, height int) *page {
	fits := &page{lines: slices.Clone(p.lines)}
	if more := len(p.lines) - height + 1; more > 1 && height > 1 {
		fits.lines = fits.lines[:height-1]
		fits.addLine(heading, "and %d more lines", more)
	}
	for i := range fits.lines {
		if width > 1 {
			fits.lines[i].text = ansi.Truncate(fits.lines[i].text, width, "…")
		}
	}
	return fits
}
