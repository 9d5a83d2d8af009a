package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a file that only its owner can read, and the folders that it needs. It returns the path.
func WriteFile(tb testing.TB, path, content string) string {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
