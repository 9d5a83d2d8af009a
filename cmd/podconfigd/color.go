package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// colorFlag is the value of --color.
type colorFlag string

const (
	colorAuto   colorFlag = "auto"
	colorAlways colorFlag = "always"
	colorNever  colorFlag = "never"
)

func (c colorFlag) check() error {
	switch c {
	case colorAuto, colorAlways, colorNever:
		return nil
	}
	return fmt.Errorf("--color: unknown value %q: expected one of auto, always, never", string(c))
}

// on reports whether the output is colored. See https://no-color.org.
func (c colorFlag) on(out io.Writer) bool {
	return c == colorAlways || c == colorAuto && os.Getenv("NO_COLOR") == "" && screen(out) != nil
}

// screen returns the terminal that understands escape sequences, or nil.
func screen(out io.Writer) *os.File {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" || !enableEscapes(f) {
		return nil
	}
	return f
}

// isTerminal reports whether the output is a terminal of any kind.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
