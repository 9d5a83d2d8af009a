package smallfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, length int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), length), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		write("empty", 0):             "",
		write("largest", MaxLength):   "",
		write("larger", MaxLength+1):  "expected at most 1048576 bytes",
		fifo:                          "expected a regular file, got a FIFO",
		"/dev/zero":                   "expected a regular file, got a device",
		dir:                           "expected a regular file, got a directory",
		filepath.Join(dir, "missing"): "no such file or directory",
	} {
		data, err := Read(path)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: the error is %v, want %q", path, err, want)
		case err != nil && len(data) > 0:
			t.Errorf("%s: %d bytes with an error", path, len(data))
		}
	}
	if _, err := Read(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
