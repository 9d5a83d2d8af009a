package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/sourcetest"
)

// place is a directory behind a symbolic link. Breaking the link makes it unavailable,
// because an absent directory would count as empty at the start.
type place struct {
	parent, dir string
}

func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for sources")
	}
	sourcetest.Run(t, func(t *testing.T) sourcetest.Place {
		t.Helper()
		parent := t.TempDir()
		p := &place{parent: parent, dir: filepath.Join(parent, "current", "manifests")}
		p.must(t, os.MkdirAll(filepath.Join(parent, "real", "manifests"), 0o755))
		p.Mend(t)
		return p
	})
}

func (p *place) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) Source(restored sources.Restored) sources.Source {
	return New(Options{Path: p.dir, Decoder: manifest.NewDecoder("node"), Restored: restored})
}

func (p *place) Put(t *testing.T, name, image string) {
	t.Helper()
	data := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image)
	temp := filepath.Join(p.parent, name)
	p.must(t, os.WriteFile(temp, []byte(data), 0o600))
	p.must(t, os.Rename(temp, filepath.Join(p.dir, name)))
}

func (p *place) Remove(t *testing.T, name string) {
	t.Helper()
	p.must(t, os.Remove(filepath.Join(p.dir, name)))
}

func (p *place) Break(t *testing.T) {
	t.Helper()
	p.lead(t, "current") // to itself
}

func (p *place) Mend(t *testing.T) {
	t.Helper()
	p.lead(t, "real")
}

// lead changes the target of the link, in one step.
func (p *place) lead(t *testing.T, to string) {
	t.Helper()
	temp := filepath.Join(p.parent, "temp")
	p.must(t, os.Symlink(to, temp))
	p.must(t, os.Rename(temp, filepath.Join(p.parent, "current")))
}
