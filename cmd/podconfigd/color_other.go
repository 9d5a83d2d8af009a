//go:build !windows

package main

import "os"

// enableEscapes reports that terminals understand escape sequences.
func enableEscapes(*os.File) bool { return true }
