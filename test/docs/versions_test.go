package docs

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// Modules that both this module and the servers of the tests need have the same version,
// so that they are compiled only once.
func TestTheServersHaveOurVersions(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	versions := func(path string) map[string]string {
		cmd := exec.Command("go", "mod", "edit", "-json", path)
		cmd.Dir = root
		data, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Require []struct{ Path, Version string }
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		versions := make(map[string]string)
		for _, require := range file.Require {
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
