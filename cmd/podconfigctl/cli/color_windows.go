package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes makes a console understand escape sequences. It reports whether it does.
func enableEscapes(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
