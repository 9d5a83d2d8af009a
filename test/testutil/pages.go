package testutil

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pages returns the Markdown files of the documentation, by their path below the root: the files at
// the root, and all files below docs.
func Pages(tb testing.TB) map[string]string {
	tb.Helper()
	root, err := Root()
	if err != nil {
		tb.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err == nil {
		err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				paths = append(paths, path)
			}
			return err
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
	pages := make(map[string]string)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			tb.Fatal(err)
		}
		pages[filepath.ToSlash(name)] = string(data)
	}
	return pages
}
