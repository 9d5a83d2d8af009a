package packages

import (
	"crypto/sha256"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Two builds of the same commit, in folders of other names and with another build cache, give the same programs and packages.
func TestTwoBuildsAreEqual(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	nfpm := testutil.MustProgram(t, "tools/packages", "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	man := t.TempDir()
	if err := os.WriteFile(filepath.Join(man, "podconfigd.1"), []byte(".TH podconfigd 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "a")
	first := sums(t, root, clone, "022", nfpm, "MAN="+man)
	// Without a cache of its own, the second build would take what the first one compiled.
	second := sums(t, clone, filepath.Join(t.TempDir(), "another-folder", "b"), "077", nfpm, "MAN="+man, "GOCACHE="+t.TempDir())
	if len(first) != 4 || !maps.Equal(first, second) {
		t.Errorf("the first build has %x, the second %x", first, second)
	}
}

// sums builds the commit of a repository in a clone, and returns the checksums of the programs and packages.
func sums(t *testing.T, repository, clone, umask, nfpm string, env ...string) map[string][sha256.Size]byte {
	t.Helper()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", "umask " + umask + ` && exec "$@"`, "sh", name}, args...)...)
		cmd.Env = append(os.Environ(), append(env, "VERSION=v1.2.3", "PROGRAM=", "CONFIG=", "SOURCE_DATE_EPOCH=")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	run("git", "clone", "-q", "--no-hardlinks", repository, clone)
	packages := filepath.Join(clone, "bin", "packages")
	run(filepath.Join(clone, "hack", "packages.sh"), nfpm, packages, runtime.GOARCH)
	found := make(map[string][sha256.Size]byte)
	for _, pattern := range []string{"*.deb", "*.rpm", filepath.Join("files", runtime.GOARCH, "podconfig*")} {
		paths, err := filepath.Glob(filepath.Join(packages, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.Base(path)] = sha256.Sum256(data)
		}
	}
	return found
}
