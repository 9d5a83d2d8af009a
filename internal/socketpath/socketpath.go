// Package socketpath has the default path of the daemon's socket.
package socketpath

import (
	"os"
	"path/filepath"
)

// Default returns the default path: /run/podconfigd/podconfigd.sock for root, and podconfigd/podconfigd.sock in
// XDG_RUNTIME_DIR for other users. It is empty if XDG_RUNTIME_DIR is not set.
func Default() string {
	dir := "/run"
	if os.Geteuid() != 0 {
		if dir = os.Getenv("XDG_RUNTIME_DIR"); dir == "" {
			return ""
		}
	}
	return filepath.Join(dir, "podconfigd", "podconfigd.sock")
}
