package components

import (
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestContainerds(t *testing.T) {
	testutil.Long(t)
	for _, name := range Containerds {
		t.Run(name, func(t *testing.T) {
			r := StartRuntime(t, name)
			sandbox := r.Sandbox(t, "web", "uid")
			id := r.Create(t, sandbox, "web", "uid", "c", "exit", "3")
			r.StartContainer(t, id)
			if code := r.ExitCode(t, id); code != 3 {
				t.Errorf("it exited with %d", code)
			}
			r.Kill(t) // its shims survive
			r.Start(t)
			r.Await(t)
			if code := r.ExitCode(t, id); code != 3 {
				t.Errorf("after a restart, it exited with %d", code)
			}
		})
	}
}
