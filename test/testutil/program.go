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

// tags are the build tags of "make build".
const tags = "-tags=grpcnotrace"

// Program returns the path of a command, and builds it if it is not up to date. pkg is a
// package of the module in that directory of the source tree, for example Program(".",
// "./cmd/podconfigd"). The build shares its results with "make build" and the servers of
// test/components.
func Program(module, pkg string) (string, error) {
	return build(module, pkg, "", "CGO_ENABLED=0", "-trimpath", "-ldflags=-s -w", tags)
}

// RaceProgram is Program with the race detector if this test has it, and otherwise
// without. The build shares its results with tests that have the race detector.
func RaceProgram(module, pkg string) (string, error) {
	if !Race {
		return Program(module, pkg)
	}
	return build(module, pkg, "-race", "CGO_ENABLED=1", "-race", tags)
}

// MustProgram is Program for tests. It fails the test on an error.
func MustProgram(tb testing.TB, module, pkg string) string {
	tb.Helper()
	path, err := Program(module, pkg)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// build builds into the folder bin of the source tree, which git ignores. The go command
// links only what is not up to date. Other test programs wait for the build. The state of git is not
// built in: it can change, and GOFLAGS of two test programs can say otherwise.
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
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	cmd := exec.CommandContext(context.Background(), "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = filepath.Join(root, module), append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}
