package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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

// made accepts the files of the tests.
func made(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "our-") && !e.IsDir() }

// The owner gets the directory and what is in it, but nothing that a link in it refers to, and not
// the lost+found of a file system.
func TestGive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	dir, outside := t.TempDir(), t.TempDir()
	top := filepath.Join(dir, "new", "top")
	file, link, lost := filepath.Join(top, "our-file"), filepath.Join(top, "our-link"), filepath.Join(top, "lost+found")
	for _, owner := range []Owner{{65532, 65532}, {0, 0}, {65532, 1}} {
		if err := Give(top, owner, made); err != nil {
			t.Fatal(err)
		}
		expectOwner(t, top, owner)
		if err := os.MkdirAll(lost, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(link)
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		next := Owner{owner.UID + 1, owner.GID}
		if err := Give(top, next, made); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{top, file, link} {
			expectOwner(t, path, next)
		}
		expectOwner(t, lost, Owner{0, 0})
		expectOwner(t, outside, Owner{0, 0})
		expectOwner(t, filepath.Dir(top), Owner{0, 0})
	}
}

// A directory of the system, or of another program, stays as it is.
func TestGiveForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	for _, foreign := range []string{"passwd", "our-directory/"} {
		dir := t.TempDir()
		ours, theirs := filepath.Join(dir, "our-file"), filepath.Join(dir, foreign)
		if err := errors.Join(os.WriteFile(ours, nil, 0o600), os.MkdirAll(theirs, 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 7, 8); err != nil {
			t.Fatal(err)
		}
		err := Give(dir, Owner{65532, 65532}, made)
		want := fmt.Sprintf("giving %s to 65532:65532: podconfigd did not create %q in it: give a directory that only podconfigd uses",
			dir, filepath.Base(foreign))
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		expectOwner(t, dir, Owner{7, 8})
		expectOwner(t, ours, Owner{0, 0})
		expectOwner(t, theirs, Owner{0, 0})
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
	err := Give(link, Owner{65532, 65532}, made)
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
	if err := Give(dir, owner, made); err != nil {
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
	err := Give(file, Owner{1, 1}, made)
	if want := "creating a directory for 1:1: mkdir " + file + ": not a directory"; err == nil || err.Error() != want {
		t.Errorf("a file: got %v, want %s", err, want)
	}
	if err := Give("", Owner{1, 1}, made); !errors.Is(err, errNoDirectory) {
		t.Errorf("an empty name: %v", err)
	}
	if os.Geteuid() == 0 {
		return
	}
	dir := t.TempDir()
	if err := Give(dir, Owner{1, 1}, made); err == nil || !strings.HasSuffix(err.Error(), "; run as root with CAP_CHOWN") {
		t.Errorf("without root: %v", err)
	}
}

func expectOwner(t *testing.T, path string, want Owner) {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	if got := (Owner{int(stat.Uid), int(stat.Gid)}); got != want {
		t.Errorf("%s belongs to %s, want %s", path, got, want)
	}
}

// A file of the directory can be another name of a file elsewhere, for example of the passwords of
// the system. Nothing is given then.
func TestGiveFilesWithOneNameOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user takes root")
	}
	outside := filepath.Join(t.TempDir(), "shadow")
	dir := filepath.Join(filepath.Dir(outside), "dir")
	first, second := filepath.Join(dir, "our-a"), filepath.Join(dir, "our-b")
	if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Mkdir(dir, 0o700), os.WriteFile(first, nil, 0o600), os.Link(outside, second)); err != nil {
		t.Fatal(err)
	}
	for _, before := range []Owner{{0, 0}, {7, 8}} {
		if err := os.Chown(dir, before.UID, before.GID); err != nil {
			t.Fatal(err)
		}
		err := Give(dir, Owner{65532, 65532}, made)
		want := "giving " + dir + ` to 65532:65532: "our-b" in it has another name elsewhere (a hard link): remove the name in the directory`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		expectOwner(t, dir, before)
		expectOwner(t, first, Owner{0, 0})
		expectOwner(t, outside, Owner{0, 0})
	}
}
