package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// earlier is the commit of the earlier version. After a release, take the commit of the release.
const earlier = "e6bd5399186ed22dd2e6739ba72180a4c754877b"

// version is a version of podconfigd. In the earlier one, both programs are the same file.
type version struct{ name, podconfigd, podconfigctl, probe string }

func current(t *testing.T) version {
	t.Helper()
	return version{
		"current", testutil.MustProgram(t, ".", "./cmd/podconfigd"), testutil.MustProgram(t, ".", "./cmd/podconfigctl"),
		testutil.MustProgram(t, ".", "./test/upgrade/probe"),
	}
}

// previous builds the earlier version once, outside of the tree.
var previous = sync.OnceValues(func() (version, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return version{}, err
	}
	if own := os.Getenv("CACHE"); own != "" {
		cache = own
	} else {
		cache = filepath.Join(cache, "podconfigd")
	}
	dir := filepath.Join(cache, "upgrade", earlier)
	v := version{"earlier", filepath.Join(dir, "podconfigd"), filepath.Join(dir, "podconfigd"), filepath.Join(dir, "probe")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return v, err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return v, err
	}
	defer lock.Close() // releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return v, err
	}
	return v, v.build(dir)
})

// build builds what is missing. The probe is of this version, with the packages of the earlier version.
func (v version) build(dir string) error {
	root, err := testutil.Root()
	if err != nil {
		return err
	}
	source, err := os.ReadFile(filepath.Join(root, "test", "upgrade", "probe", "main.go"))
	if err != nil {
		return err
	}
	built, _ := os.ReadFile(filepath.Join(dir, "probe.go"))
	if bytes.Equal(built, source) {
		return nil
	}
	fmt.Fprintf(os.Stderr, "==> building podconfigd %.8s into %s (only once)\n", earlier, dir)
	tree, err := os.MkdirTemp(dir, "tree")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := pipe(exec.Command("git", "-C", root, "archive", earlier), exec.Command("tar", "-x", "-C", tree)); err != nil {
		return err
	}
	probe := filepath.Join(tree, "test", "upgrade", "probe")
	if err := os.MkdirAll(probe, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(probe, "main.go"), source, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir, "./cmd/podconfigd", "./test/upgrade/probe")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building podconfigd %s: %w\n%s", earlier, err, out)
	}
	return os.WriteFile(filepath.Join(dir, "probe.go"), source, 0o600)
}

// pipe runs two commands, the first one's output being the input of the second.
func pipe(from, to *exec.Cmd) error {
	out, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = out
	if err := from.Start(); err != nil {
		return err
	}
	complaints, err := to.CombinedOutput()
	_, _ = io.Copy(io.Discard, out)
	if fromErr := from.Wait(); fromErr != nil {
		return fmt.Errorf("%s: %w", from, fromErr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", to, err, complaints)
	}
	return nil
}

// versions returns this version and the earlier one. It skips the test without -earlier, or if the
// repository does not have the commit.
func versions(t *testing.T) (now, before version) {
	t.Helper()
	if !*withEarlier {
		t.Skip("builds an earlier version: make conformance runs it")
	}
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", earlier+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("this repository does not have the commit %s of the earlier version, as it may be a shallow clone; fetch it with git fetch --unshallow: %v %s", earlier, err, out)
	}
	before, err = previous()
	if err != nil {
		t.Fatal(err)
	}
	return current(t), before
}
