package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// statusPeriod is the period in which --watch requests the status.
const statusPeriod = time.Second

// watchStatus prints the status at each change until the command is interrupted. It fails only
// at the start. Later, it reports an error and tries again.
func (o *Options) watchStatus(ctx context.Context, c *client.Client, out, notes io.Writer) error {
	r, err := o.ask(ctx, c)
	if err != nil {
		return err
	}
	w := &statusWatch{Options: o, out: out, notes: notes}
	tick := time.NewTicker(statusPeriod)
	defer tick.Stop()
	for {
		if err := w.show(r, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		r, err = o.ask(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// statusWatch prints reports that follow each other.
type statusWatch struct {
	*Options
	out, notes io.Writer
	// shown is what was printed last, failure the error since then.
	shown, failure string
	// last is the page on the screen.
	last *page
}

// show prints a report, or the error with which it could not be requested.
func (w *statusWatch) show(r *report, failed error) error {
	if screen := cli.Screen(w.out); screen != nil && w.output == "" {
		if failed != nil {
			return w.redraw(withError(w.last, failed), int(screen.Fd()))
		}
		w.last = r.page
		return w.redraw(r.page, int(screen.Fd()))
	}
	if failed != nil {
		if failed.Error() != w.failure {
			w.failure = failed.Error()
			fmt.Fprintf(w.notes, "podconfigctl: %v; trying again\n", failed)
		}
		return nil
	}
	shown, err := r.settled()
	if err != nil || (shown == w.shown && w.failure == "") {
		return err
	}
	first := w.shown == ""
	w.shown, w.failure = shown, ""
	switch {
	case w.output == "yaml":
		_, err = io.WriteString(w.out, "---\n")
	case w.output == "" && !first:
		_, err = fmt.Fprintf(w.out, "\n=== %s\n", time.Now().Format(time.DateTime))
	}
	if err != nil {
		return err
	}
	return w.print(w.out, r)
}

// withError returns a page with an error above it.
func withError(p *page, err error) *page {
	above := new(page)
	above.addLine(bad, "%s", cli.Cell(err.Error()))
	above.gap()
	above.lines = append(above.lines, p.lines...)
	return above
}

// Escape sequences of terminals.
const (
	toTop      = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// redraw writes the page over the one before, at once.
func (w *statusWatch) redraw(p *page, terminal int) error {
	width, height, err := term.GetSize(terminal)
	if err != nil {
		width, height = 80, 24
	}
	text, colored := toTop, w.color.On(w.out)
	for _, line := range p.cut(width, height-1).lines {
		text += line.colored(colored) + clearLine + "\n"
	}
	_, err = io.WriteString(w.out, text+clearBelow)
	return err
}

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
