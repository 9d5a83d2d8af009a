package status

import (
	"context"
	"fmt"
	"io"
	"time"

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
