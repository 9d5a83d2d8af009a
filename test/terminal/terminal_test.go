package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// program is podconfigctl, and daemonProgram is podconfigd.
var program, daemonProgram string

func TestMain(m *testing.M) {
	var err error
	for pkg, path := range map[string]*string{"./cmd/podconfigd": &daemonProgram, "./cmd/podconfigctl": &program} {
		if *path, err = testutil.RaceProgram(".", pkg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// tmuxConfig keeps the screen of a command that ended.
const tmuxConfig = `set -g remain-on-exit on
set -g default-terminal tmux-256color
set -g status off
set -g escape-time 0
`

// terminal is a tmux server with one window, which runs one command.
type terminal struct {
	t      *testing.T
	socket string
}

// newTerminal starts "podconfigctl top" in a terminal of that size.
func newTerminal(t *testing.T, width, height int, env []string, args ...string) *terminal {
	t.Helper()
	return newTerminalOf(t, width, height, env, append([]string{program, "top"}, args...)...)
}

func newTerminalOf(t *testing.T, width, height int, env []string, command ...string) *terminal {
	t.Helper()
	dir := testutil.ShortDir(t)
	config := filepath.Join(dir, "conf")
	if err := os.WriteFile(config, []byte(tmuxConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, filepath.Join(dir, "tmux")}
	args := []string{"-u", "-f", config, "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "env"}
	term.tmux(append(append(append(args, "-u", "NO_COLOR"), env...), command...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", term.screen())
		}
		pid := term.tmux("display-message", "-p", "#{pid}")
		term.tmux("kill-server")
		testutil.Until(t, "tmux ends", func() bool { return !runs(t, pid) })
	})
	return term
}

// tmux runs a command of tmux, and returns its output.
func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// screen returns the text on the screen.
func (term *terminal) screen() string { return term.tmux("capture-pane", "-p") }

// colored returns the text on the screen with its escape sequences.
func (term *terminal) colored() string { return term.tmux("capture-pane", "-p", "-e") }

// press sends keys with the names of tmux.
func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

// shows waits until the screen shows all texts.
func (term *terminal) shows(texts ...string) {
	term.t.Helper()
	testutil.Eventually(term.t, func() error {
		screen := term.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return fmt.Errorf("the screen does not show %q:\n%s", text, screen)
			}
		}
		return nil
	})
}

// hides waits until the screen shows none of the texts.
func (term *terminal) hides(texts ...string) {
	term.t.Helper()
	testutil.Eventually(term.t, func() error {
		screen := term.screen()
		for _, text := range texts {
			if strings.Contains(screen, text) {
				return fmt.Errorf("the screen shows %q:\n%s", text, screen)
			}
		}
		return nil
	})
}

// back closes what is open. Escape and the next key would be one key with Alt if they came at
// once.
func (term *terminal) back() {
	term.t.Helper()
	term.press("Escape")
	term.shows("q quit")
}

// ends waits until the command has ended with the exit code.
func (term *terminal) ends(code int) {
	term.t.Helper()
	testutil.Until(term.t, "the command ends", func() bool { return term.tmux("display-message", "-p", "#{pane_dead}") == "1" })
	got := term.tmux("display-message", "-p", "#{pane_dead_status}")
	if got == "" {
		return // tmux does not always know it
	}
	if got != strconv.Itoa(code) {
		term.t.Errorf("exit code %s, want %d", got, code)
	}
}

// runs reports whether the process runs.
func runs(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
