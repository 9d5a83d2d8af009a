package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// ColorFlag is the value of --color.
type ColorFlag string

// The values of --color.
const (
	ColorAuto   ColorFlag = "auto"
	ColorAlways ColorFlag = "always"
	ColorNever  ColorFlag = "never"
)

// Check returns an error if the value is not a known one.
func (c ColorFlag) Check() error {
	switch c {
	case ColorAuto, ColorAlways, ColorNever:
		return nil
	}
	return fmt.Errorf("--color: unknown value %q: expected one of auto, always, never", string(c))
}

// On reports whether the output is colored. See https://no-color.org.
func (c ColorFlag) On(out io.Writer) bool {
	return c == ColorAlways || c == ColorAuto && os.Getenv("NO_COLOR") == "" && Screen(out) != nil
}

// Screen returns the terminal that understands escape sequences, or nil.
func Screen(out io.Writer) *os.File {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" || !enableEscapes(f) {
		return nil
	}
	return f
}

// IsTerminal reports whether the output is a terminal of any kind.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
