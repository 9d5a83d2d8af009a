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
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := Read(path)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", path, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
				t.Errorf("%s: the error is %v, want %q", path, err, want)
			case err != nil && len(data) > 0:
				t.Errorf("%s: %d bytes with an error", path, len(data))
			}
		})
	}
	if _, err := Read(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	expect := func(name, want string) {
		t.Helper()
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v, want %q", name, data, err, want)
		}
	}
	replace := func(text string) {
		t.Helper()
		if err := Replace(path, text); err != nil {
			t.Fatal(err)
		}
		expect(path, text)
	}
	replace("a longer text")
	replace("short")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// What is left of an interrupted run, and links, are replaced.
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.WriteFile(path+NewSuffix, []byte("half"), 0o400)); err != nil {
		t.Fatal(err)
	}
	replace("again")
	if err := errors.Join(os.Remove(path), os.Symlink(other, path), os.Symlink(other, path+NewSuffix)); err != nil {
		t.Fatal(err)
	}
	replace("no link")
	expect(other, "precious")
}

// A file that can't be replaced stays, and nothing else is left.
func TestReplaceFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, "text"); err == nil {
		t.Error("it replaced a directory")
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
