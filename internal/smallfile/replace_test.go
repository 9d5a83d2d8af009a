package smallfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

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
