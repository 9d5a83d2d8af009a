package v1alpha1

import (
	"os"
	"path/filepath"
)

// DefaultSocket returns the default path of the socket of the daemon: /run/podconfigd/podconfigd.sock for root, and podconfigd/podconfigd.sock in
// XDG_RUNTIME_DIR for other users. It is empty if XDG_RUNTIME_DIR is not set.
func DefaultSocket() string {
	dir := "/run"
	if os.Geteuid() != 0 {
		if dir = os.Getenv("XDG_RUNTIME_DIR"); dir == "" {
			return ""
		}
	}
	return filepath.Join(dir, "podconfigd", "podconfigd.sock")
}
