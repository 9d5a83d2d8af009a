package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
)

// Two processes do not share a state file, under whatever name. A link in its place stays, also one to a file that does not exist yet.
func TestAStateFileIsForOneProcess(t *testing.T) {
	dir := t.TempDir()
	file, link, chain := filepath.Join(dir, "a", "position"), filepath.Join(dir, "b", "link"), filepath.Join(dir, "chain")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.Mkdir(filepath.Dir(link), 0o700),
		os.Symlink("../a/position", link), os.Symlink(link, chain)); err != nil {
		t.Fatal(err)
	}
	path, lock, err := lockPosition(chain)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link, chain} {
		if _, _, err := lockPosition(name); err == nil || !strings.Contains(err.Error(), "another export uses "+dir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := errors.Join((position{"i", 4}).store(path), lock.Close()); err != nil {
		t.Fatal(err)
	}
	if p, err := loadPosition(file); p.Revision != 4 || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
	path, lock, err = lockPosition(link)
	if err != nil || path == link {
		t.Errorf("got %s, %v", path, err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("self", filepath.Join(dir, "self")); err != nil {
		t.Fatal(err)
	}
	o := &Options{stateFile: filepath.Join(dir, "self")}
	if err := o.Run(t.Context(), nil, cli.IOStreams{}); err == nil || !strings.Contains(err.Error(), "too many levels") {
		t.Errorf("got %v", err)
	}
}
