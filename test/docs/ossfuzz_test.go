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

// The stand-in for OSS-Fuzz's command finds the file of a target as that does: by its name alone, in all folders below the package. The
// command takes all tests of the folder for one package, and imports it in a file in the present folder.
const compileFuzzer = `#!/bin/bash -eu
dir=$(go list -f '{{.Dir}}' "$1")
test "$(go list -f '{{.XTestGoFiles}}' "$1")" = '[]'
file=$(grep -rl --include='*.go' "$2" "$dir")
test "$(grep "func $2" "$file" | grep -c 'testing\.F')" = 1
if [[ $1 == */internal/* ]]; then
	printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$1" >main.go
	go list main.go >/dev/null
	rm main.go
fi
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
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--shared", root, clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), root+"/test/oss-fuzz/build.sh")
	cmd.Dir = clone
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
