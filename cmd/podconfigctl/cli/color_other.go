//go:build !windows

package cli

import "os"

// enableEscapes reports that terminals understand escape sequences.
func enableEscapes(*os.File) bool { return true }
