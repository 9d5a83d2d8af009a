package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// binDir is the directory of the programs that the scripts run.
var binDir string

func TestMain(m *testing.M) {
	dir, err := installPrograms()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	testutil.Parallel(8) // most scripts mostly wait for the daemon
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// installPrograms installs both programs in a new directory, with the race detector if the
// tests have it. Other users may run them.
func installPrograms() (dir string, err error) {
	dir, err = os.MkdirTemp("", "podconfigd-script")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"podconfigd", "podconfigctl"} {
		program, err := testutil.RaceProgram(".", "./cmd/"+name)
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.Chmod(dir, 0o755)
}

func TestScripts(t *testing.T) {
	params := testscript.Params{
		Dir:                "testdata",
		Setup:              setup,
		Condition:          condition,
		Cmds:               commands(),
		RequireUniqueNames: true,
	}
	testscript.Run(t, params)
}

// setup gives a script its scenario.
func setup(env *testscript.Env) error {
	tb, ok := env.T().(testing.TB)
	if !ok {
		return fmt.Errorf("%T is not a testing.TB", env.T())
	}
	// The path of a socket has at most 107 bytes, and $WORK can be longer.
	socketDir, err := os.MkdirTemp("", "pcd")
	if err != nil {
		return err
	}
	env.Defer(func() { os.RemoveAll(socketDir) })
	// Some scripts run the daemon as another user.
	if err := os.Chmod(socketDir, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Dir(env.WorkDir), 0o755); err != nil {
		return err
	}
	sc := newScenario(tb, env.WorkDir, filepath.Join(socketDir, "s"))
	env.Values[scenarioKey{}] = sc
	env.Defer(sc.finish)
	env.Setenv("PATH", binDir+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("PODCONFIGD_SOCKET", sc.socket)
	// A data race ends the process. It does not delay its exit.
	env.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=0")
	return nil
}

// condition reports whether this machine and user support something.
func condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "mknod":
		return inTempDir(func(dir string) error {
			return unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		})
	case "lease":
		return inTempDir(func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_CREATE|os.O_RDONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		})
	case "userns":
		limit := "echo 0 >/proc/sys/user/max_inotify_instances"
		return exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", limit).Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition")
}

// inTempDir reports whether something works in a temporary directory.
func inTempDir(try func(dir string) error) (bool, error) {
	dir, err := os.MkdirTemp("", "pcd")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	return try(dir) == nil, nil
}
