package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newOption is an option as CONTRIBUTING.md describes it: one field with its comment and its markers.
const newOption = `
	// spareBuckets is the number of buckets that podconfigd keeps beside maxSubscribers.
	// +section=Limit
	// +flag=spare-buckets
	// +defaultValue=3
	// +minimum=1
	// +maximum=9
	// +reload=limits
	SpareBuckets *int32 ` + "`json:\"spareBuckets,omitempty\"`" + `
	// bucketKind is the kind of the buckets.
	// +flag=bucket-kind
	// +enum=round,square
	// +defaultValue=round
	BucketKind *string ` + "`json:\"bucketKind,omitempty\"`" + `
`

// An option is added in one place: after "make generate", everything else has it.
func TestAnOptionIsAddedInOnePlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	dir := t.TempDir()
	run := func(t *testing.T, fails bool, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		// With the flags of the other builds, only what changes is compiled.
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "XDG_RUNTIME_DIR=/run", "GOFLAGS=-trimpath -tags=grpcnotrace")
		out, err := cmd.CombinedOutput()
		if fails != (err != nil) {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	run(t, false, "sh", "-c", "cd '"+root+"' && tar c go.mod go.sum api cmd docs internal pkg hack/configdoc | tar x -C '"+dir+"'")
	file := filepath.Join(dir, "api", "config", "v1alpha1", "types.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before = "\n\t// logging is the configuration"
	changed := strings.Replace(string(text), before, newOption+before, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil || changed == string(text) {
		t.Fatal("the option was not added", err)
	}
	run(t, false, "go", "run", "./hack/configdoc", ".")
	run(t, false, "go", "build", "-o", ".", "./cmd/podconfigd", "./cmd/podconfigctl")
	config := "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\nstaticPodPath: m\nspareBuckets: 10\n"
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fails bool
		args  []string
		want  string
	}{
		"help":     {false, []string{"./podconfigd", "--help"}, "--spare-buckets int32"},
		"text":     {false, []string{"./podconfigd", "--help"}, "beside --max-subscribers. 1 to 9."},
		"default":  {false, []string{"./podconfigctl", "config", "print", "--pod-manifest-path=m"}, "spareBuckets: 3 # default"},
		"flag":     {false, []string{"./podconfigctl", "config", "print", "--pod-manifest-path=m", "--spare-buckets=4"}, "spareBuckets: 4 # flag --spare-buckets"},
		"range":    {true, []string{"./podconfigctl", "config", "check", "--pod-manifest-path=m", "--spare-buckets=0"}, "--spare-buckets: 0 is too small: expected 1 or more"},
		"file":     {true, []string{"./podconfigctl", "config", "check", "--config=c.yaml"}, "c.yaml:4: spareBuckets: 10 is too large: expected 9 or less"},
		"set":      {true, []string{"./podconfigctl", "config", "check", "--pod-manifest-path=m", "--bucket-kind=oval"}, `--bucket-kind: "oval" is unknown: expected round or square`},
		"complete": {false, []string{"./podconfigd", "__complete", "--bucket-kind", ""}, "round square"},
		"schema":   {false, []string{"cat", "api/config/v1alpha1/schema.json"}, `"spareBuckets": {`},
		"page":     {false, []string{"cat", "docs/reference/config.md"}, "| `spareBuckets` | integer | `3` | `--spare-buckets` |"},
		"reload":   {false, []string{"cat", "docs/reference/config.md"}, "`maxSubscribersPerProcess`, `spareBuckets` | New streams"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(strings.Fields(run(t, c.fails, c.args[0], c.args[1:]...)), " ")
			if !strings.Contains(got, c.want) {
				t.Errorf("no %q in %d characters: %.300s", c.want, len(got), got)
			}
		})
	}
}
