package testutil

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Program returns the path of a command, which is built where it is not up to date: pkg
// is a package of the module in that directory of the source tree, as in
// Program(".", "./cmd/podconfigd"). It is built as "make build" and the servers of
// test/components are, and so shares what was compiled for these.
func Program(module, pkg string) (string, error) {
	return build(module, pkg, "", "CGO_ENABLED=0", "-trimpath", "-ldflags=-s -w")
}

// RaceProgram is Program with the race detector, sharing what was compiled for tests
// that have it, where this test has it; and without where it has not.
func RaceProgram(module, pkg string) (string, error) {
	if !Race {
		return Program(module, pkg)
	}
	return build(module, pkg, "-race", "CGO_ENABLED=1", "-race")
}

// MustProgram is Program for tests.
func MustProgram(tb testing.TB, module, pkg string) string {
	tb.Helper()
	path, err := Program(module, pkg)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// build builds into the source tree's folder bin, which git ignores. The go command links
// nothing that is there and up to date. Test programs that run beside this one wait.
func build(module, pkg, suffix, env string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	into := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(into, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	path := filepath.Join(into, filepath.Base(pkg)+suffix)
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.CommandContext(context.Background(), "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = filepath.Join(root, module), append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}
