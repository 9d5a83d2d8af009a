package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The stand-in for OSS-Fuzz's command finds the file of a target as that does: by its name alone, in all folders below the package.
const compileFuzzer = `#!/bin/bash -eu
dir=$(go list -f '{{.Dir}}' "$1")
file=$(grep -rl --include='*.go' "$2" "$dir")
grep -q "^func $2(.* \*testing.F) {" "$file"
echo "$1 $2" >>"$CALLS"
set -o noclobber
: >"$OUT/$3"
chmod +x "$OUT/$3"
`

// TestOSSFuzz of test/oss-fuzz: it builds every fuzz target, each under its own name.
func TestOSSFuzz(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(filepath.Join(bin, "compile_native_go_fuzzer_v2"), []byte(compileFuzzer), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), root+"/test/oss-fuzz/build.sh")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "OUT="+t.TempDir(), "CALLS="+calls)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	data, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(data)), "\n")

	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	target := regexp.MustCompile(`(?m)^func (\w+)\(\w+ \*testing\.F\)`)
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range target.FindAllStringSubmatch(string(data), -1) {
			want = append(want, module+filepath.Dir(name)+" "+match[1])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("build.sh builds\n%s\nand there are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	data, err = os.ReadFile(root + "/test/oss-fuzz/project.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var project struct{ Language, Homepage string }
	if err := yaml.Unmarshal(data, &project); err != nil || project.Language != "go" || !strings.HasSuffix(module, strings.TrimPrefix(project.Homepage, "https://")+"/") {
		t.Errorf("project.yaml: %+v, %v", project, err)
	}
}
