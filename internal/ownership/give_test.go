package ownership

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseOwner(t *testing.T) {
	if got, err := ParseOwner("65532:0"); err != nil || got != (Owner{65532, 0}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, s := range []string{"", "1", "1:", ":1", "a:1", "1:a", "-1:1", "1:-1", "1:1:1", "1:1 "} {
		if got, err := ParseOwner(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}

// The owner gets everything in a directory, and nothing that a link in it refers to.
func TestGive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	dir, outside := t.TempDir(), t.TempDir()
	top := filepath.Join(dir, "new", "top")
	inner := filepath.Join(top, "inner")
	file := filepath.Join(inner, "file")
	for _, owner := range []Owner{{65532, 65532}, {0, 0}, {65532, 1}} {
		if err := os.MkdirAll(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(top, "link")
		_ = os.Remove(link)
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		if err := Give(top, owner); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{top, inner, file, link} {
			expectOwner(t, path, owner)
		}
		expectOwner(t, outside, Owner{0, 0})
		expectOwner(t, filepath.Dir(top), Owner{0, 0})
	}
}

// A link in a directory of another user does not give away what it refers to.
func TestGiveLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	outside := t.TempDir()
	file := filepath.Join(outside, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	err := Give(link, Owner{65532, 65532})
	if want := "giving " + link + " to 65532:65532: it is not a directory: give the directory itself"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, path := range []string{outside, file, link} {
		expectOwner(t, path, Owner{0, 0})
	}
}

// A directory that the owner has is not read again.
func TestGiveAgain(t *testing.T) {
	dir := t.TempDir()
	owner := Owner{os.Geteuid(), os.Getegid()}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(inner, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := Give(dir, owner); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		expectOwner(t, inner, Owner{1, 1})
	}
}

func TestFaultsOfGive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Give(file, Owner{1, 1})
	if want := "creating a directory for 1:1: mkdir " + file + ": not a directory"; err == nil || err.Error() != want {
		t.Errorf("a file: got %v, want %s", err, want)
	}
	if os.Geteuid() == 0 {
		return
	}
	if err := Give("/", Owner{1, 1}); err == nil || !strings.HasSuffix(err.Error(), "; run as root with CAP_CHOWN") {
		t.Errorf("without root: %v", err)
	}
}

func expectOwner(t *testing.T, path string, want Owner) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !has(info, want) {
		t.Errorf("%s (%v) does not belong to %s: %+v", path, info.Mode()&fs.ModeType, want, info.Sys())
	}
}
