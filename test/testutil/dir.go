package testutil

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// ShortDir returns a directory for sockets, which is removed after the test. The path of
// a socket has at most 107 bytes, and t.TempDir uses too many of them.
func ShortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var rootModule = regexp.MustCompile(`(?m)^module github\.com/podconfigd/podconfigd$`)

// Root returns the root of the source tree, in which the test runs.
var Root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && rootModule.Match(data) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the test does not run in the source tree of podconfigd")
		}
		dir = filepath.Dir(dir)
	}
})
