package testutil

import (
	"os"
	"os/exec"
	"testing"
)

// A command that is up to date is not linked again, also by a test whose GOFLAGS say otherwise whether
// the state of git is built in.
func TestAProgramIsBuiltOnce(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=false")
	first := MustProgram(t, ".", "./test/components/image")
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-buildvcs=true")
	second := MustProgram(t, ".", "./test/components/image")
	after, err := os.Stat(second)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it was linked again: %v", err)
	}
	if err := exec.Command(second, "exit", "0").Run(); err != nil {
		t.Error(err)
	}
}
