// Command ansisvg converts the text of a terminal to an SVG. It reads text with the escape
// sequences for colors and attributes from standard input, as "tmux capture-pane -e" prints it,
// and writes the SVG to standard output.
//
//	ansisvg TITLE < screen > screen.svg
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ansisvg TITLE < screen > screen.svg")
		os.Exit(2)
	}
	if err := convert(os.Stdout, os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "ansisvg:", err)
		os.Exit(1)
	}
}

// Sizes in pixels.
const (
	cellWidth, lineHeight = 8.4, 19
	margin, bar           = 16, 34
)

const (
	foreground, background, border = "#d6dbe3", "#10151c", "#2b333e"
	faint                          = "#7d8794"
)

// palette has the first eight colors of the terminal.
var palette = []string{"#3b4350", "#f0797a", "#86cf8f", "#e3bd6a", "#7fb0f2", "#c49bea", "#74c7d4", foreground}

// style is the state of the terminal.
type style struct {
	color                  string
	bold, faint, underline bool
}

// run is text in one style, from a column on.
type run struct {
	column int
	text   string
	style  style
}

func convert(w io.Writer, r io.Reader, title string) error {
	var lines [][]run
	width := 0
	var current style
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		runs := parse(scanner.Text(), &current)
		if n := len(runs); n > 0 {
			width = max(width, runs[n-1].column+ansi.StringWidth(runs[n-1].text))
		}
		lines = append(lines, runs)
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	out := new(bytes.Buffer)
	totalWidth, height := float64(width)*cellWidth+2*margin, len(lines)*lineHeight+bar+margin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img" font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`+"\n", totalWidth, height, totalWidth, height)
	fmt.Fprintf(out, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(out, `<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="9" fill="%s" stroke="%s"/>`+"\n", totalWidth-1, height-1, background, border)
	for i := range 3 {
		fmt.Fprintf(out, `<circle cx="%d" cy="17" r="5" fill="%s"/>`+"\n", margin+5+i*17, border)
	}
	fmt.Fprintf(out, `<text x="%.0f" y="21" text-anchor="middle" font-size="12" fill="%s">%s</text>`+"\n", totalWidth/2, faint, html.EscapeString(title))
	for i, runs := range lines {
		for _, run := range runs {
			writeRun(out, run, bar+i*lineHeight+lineHeight-5)
		}
	}
	fmt.Fprintln(out, "</svg>")
	_, err := out.WriteTo(w)
	return err
}

// writeRun writes the text with its exact width, so that columns are aligned in any font.
func writeRun(w *bytes.Buffer, r run, y int) {
	attributes := ""
	color := r.style.color
	if color == "" {
		color = foreground
		if r.style.faint {
			color = faint
		}
	}
	if r.style.bold {
		attributes += ` font-weight="bold"`
	}
	if r.style.underline {
		attributes += ` text-decoration="underline"`
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve" fill="%s"%s>%s</text>`+"\n",
		margin+float64(r.column)*cellWidth, y, float64(ansi.StringWidth(r.text))*cellWidth, color, attributes, html.EscapeString(r.text))
}

// parse returns the runs of a line, without the space around them.
func parse(line string, current *style) []run {
	var runs []run
	column := 0
	for line != "" {
		text, rest, escaped := strings.Cut(line, "\x1b[")
		trimmed := strings.TrimLeft(text, " ")
		column += len(text) - len(trimmed)
		width := ansi.StringWidth(trimmed)
		if trimmed = strings.TrimRight(trimmed, " "); trimmed != "" {
			runs = append(runs, run{column, trimmed, *current})
		}
		column += width
		if !escaped {
			break
		}
		codes, after, _ := strings.Cut(rest, "m")
		for code := range strings.SplitSeq(codes, ";") {
			n, _ := strconv.Atoi(code) // an empty code is 0
			current.set(n)
		}
		line = after
	}
	return runs
}

// set changes the style by a code of "Select Graphic Rendition".
func (s *style) set(code int) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1:
		s.bold = true
	case code == 2:
		s.faint = true
	case code == 4:
		s.underline = true
	case code == 22:
		s.bold, s.faint = false, false
	case code == 24:
		s.underline = false
	case code >= 30 && code <= 37:
		s.color = palette[code-30]
	case code == 39:
		s.color = ""
	}
}
