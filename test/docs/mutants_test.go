package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestMutants of test/mutants apply, and the tests that they name exist. make mutants runs them.
func TestMutants(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob(filepath.Join(root, "test", "mutants", "*.patch"))
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	head := regexp.MustCompile(`^Defect: .+\nPackage: \./(.+)\nTest: (.+)\n`)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, path := range patches {
		t.Run(filepath.Base(path), func(t *testing.T) {
			check := exec.CommandContext(t.Context(), "git", "apply", "--recount", "--check", path)
			check.Dir = root
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("it does not apply: %s", out)
			}
			patch, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fields := head.FindStringSubmatch(string(patch))
			if fields == nil {
				t.Fatal("it does not begin with Defect, Package and Test")
			}
			test, found := regexp.MustCompile("^("+fields[2]+")$"), false
			files, err := filepath.Glob(filepath.Join(root, fields[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range function.FindAllStringSubmatch(string(source), -1) {
					found = found || test.MatchString(match[1])
				}
			}
			if !found {
				t.Errorf("%s has no %s", fields[1], fields[2])
			}
		})
	}
}
