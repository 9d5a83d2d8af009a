package docs

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// modFile is what the tests need of a go.mod file.
type modFile struct {
	Toolchain string
	Require   []struct{ Path, Version string }
	Replace   []struct{ Old struct{ Path string } }
}

func readModFile(t *testing.T, path string) (file modFile) {
	t.Helper()
	data, err := exec.Command("go", "mod", "edit", "-json", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// A go command uses the toolchain line of the module where it runs, and ignores the lines of other
// modules. So all modules that compile this one have its line.
func TestModulesHaveOneToolchain(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	want := readModFile(t, filepath.Join(root, "go.mod")).Toolchain
	if want == "" {
		t.Error("go.mod has no toolchain line")
	}
	modules, err := filepath.Glob(filepath.Join(root, "test", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(root, "test", "*", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range slices.Concat(modules, deeper, examples) {
		file := readModFile(t, path)
		for _, replace := range file.Replace {
			if replace.Old.Path != "github.com/podconfigd/podconfigd" {
				continue
			}
			compared++
			if file.Toolchain != want {
				t.Errorf("%s: toolchain %q, want %q as in go.mod", path, file.Toolchain, want)
			}
		}
	}
	if compared < 8 {
		t.Errorf("only %d modules compile this one", compared)
	}
}

// Modules that both this module and the servers of the tests need have the same version,
// so that they are compiled only once.
func TestTheServersHaveOurVersions(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	versions := func(path string) map[string]string {
		versions := make(map[string]string)
		for _, require := range readModFile(t, filepath.Join(root, path)).Require {
			versions[require.Path] = require.Version
		}
		return versions
	}
	ours, theirs := versions("go.mod"), versions("test/components/servers/go.mod")
	shared := 0
	for module, version := range ours {
		if other, ok := theirs[module]; ok {
			shared++
			if other != version {
				t.Errorf("%s: %s here, %s in test/components/servers", module, version, other)
			}
		}
	}
	if shared < 10 {
		t.Errorf("only %d modules are shared", shared)
	}
}
