package systemd

import (
	"os"
	"testing"
)

// Sockets for another process are not taken, and the environment is cleared for credential plugins.
func TestSocketsOfAnotherProcess(t *testing.T) {
	names := []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}
	for i, value := range []string{"1", "2", "a:b"} {
		t.Setenv(names[i], value)
	}
	passed, err := Passed()
	if len(passed) > 0 || err != nil {
		t.Errorf("took %v, %v", passed, err)
	}
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%s is left", name, value)
		}
	}
}
