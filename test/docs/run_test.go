package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// session runs the blocks of a page, in order.
type session struct {
	t       *testing.T
	node    *node
	dir     string
	env     []string
	last    int // the exit code of the last command
	running []running
}

// running is a command that continues to run. gone is closed at its end.
type running struct {
	command string
	gone    chan struct{}
}

func newSession(t *testing.T, root, bin string) *session {
	t.Helper()
	s := &session{t: t, node: startNode(t), dir: testutil.ShortDir(t)}
	if err := errors.Join(
		os.Symlink(bin, filepath.Join(s.dir, "bin")),
		os.Symlink(filepath.Join(root, "examples"), filepath.Join(s.dir, "examples")),
		os.Symlink(root, filepath.Join(s.dir, "podconfigd")),
	); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "HOME="+s.dir, "PATH="+bin+":"+os.Getenv("PATH"))
	return s
}

// write writes a file on the node.
func (s *session) write(path, text string) error {
	cmd := s.node.command(s.dir, "sh", "-c", `mkdir -p "$(dirname "$1")" && cat >"$1"`, "sh", path)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing %s: %w: %s", path, err, out)
	}
	return nil
}

// run runs a command until it ends, or until it has printed what the page shows.
func (s *session) run(st step, mayFail bool) error {
	if value, ok := strings.CutPrefix(st.command, "export "); ok {
		s.env = append(s.env, value)
		return nil
	}
	out := new(testutil.Buffer)
	cmd := s.node.command(s.dir, "bash", "-c", fmt.Sprintf("(exit %d); %s", s.last, st.command))
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		err := cmd.Wait()
		ended <- err
		close(gone)
	}()
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // usually it has ended
		<-gone
	})
	deadline := time.After(testutil.Patience)
	for {
		select {
		case err := <-ended:
			return s.result(cmd, st, err, strings.ReplaceAll(out.String(), "\r\n", "\n"), mayFail)
		case <-deadline:
			return fmt.Errorf("after %v it had printed:\n%s", testutil.Patience, out)
		case <-time.After(10 * time.Millisecond): // short: a poll
			if len(st.output) == 0 || mayFail || !st.pattern().MatchString(out.String()) {
				continue
			}
			s.running = append(s.running, running{st.command, gone})
			return nil // it may continue to run
		}
	}
}

// otherResult is the error for a command that failed, or printed something else than the page
// shows.
type otherResult struct{ result, out string }

func (e *otherResult) Error() string { return e.result + ", and it printed:\n" + e.out }

// reads is a command that only reads. It is repeated while what the page shows has not come yet:
// a program that continues to run has not seen what the command before did, or has not written
// the file.
var reads = regexp.MustCompile(`^((bin/)?podconfigctl (status|get|history|lookup)|curl|.*kubectl .*get|cat|jq|tail) `)

func (s *session) runUntilShown(st step, mayFail bool) error {
	if ended := ends.FindStringSubmatch(st.command); ended != nil {
		defer s.awaitEnd(">" + ended[1])
	}
	deadline := time.Now().Add(testutil.Patience)
	for {
		err := s.run(st, mayFail)
		if other := (*otherResult)(nil); !errors.As(err, &other) || !reads.MatchString(st.command+" ") || time.Now().After(deadline) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// awaitEnd waits for the end of the commands that continue to run and have a text. There is at least one.
func (s *session) awaitEnd(text string) {
	found := false
	for _, c := range s.running {
		if strings.Contains(c.command, text) {
			found = true
			select {
			case <-c.gone:
			case <-time.After(testutil.Patience):
				s.t.Errorf("it did not end: %s", c.command)
			}
		}
	}
	if !found {
		s.t.Errorf("no command with %s continues to run", text)
	}
}

// result judges a command that has ended.
func (s *session) result(cmd *exec.Cmd, st step, err error, out string, mayFail bool) error {
	if s.last = cmd.ProcessState.ExitCode(); err != nil && !mayFail {
		return &otherResult{err.Error(), out}
	}
	if len(st.output) > 0 && !st.pattern().MatchString(out) {
		return &otherResult{"it ended", out}
	}
	return nil
}

// page runs all blocks of a page.
func (s *session) page(page string, all []block) {
	for _, b := range all {
		if path := b.file(); path != "" {
			if err := s.write(path, b.text()); err != nil {
				s.t.Fatalf("%s:%d: %v", page, b.line, err)
			}
			continue
		}
		if !b.runs() {
			continue
		}
		steps := b.steps()
		for i, st := range steps {
			if target, ok := strings.CutPrefix(st.command, "make "); ok {
				if !hasTarget(target) {
					s.t.Errorf("%s:%d: the Makefile has no target %q", page, st.line, target)
				}
				continue // running it could run this test again
			}
			if pkg, ok := strings.CutPrefix(st.command, "go build -o bin/"); ok {
				_, pkg, _ = strings.Cut(pkg, " ")
				testutil.MustProgram(s.t, ".", pkg) // bin is where it builds to
				continue
			}
			if strings.HasPrefix(st.command, "kubectl ") {
				st.command = "PATH=" + filepath.Dir(components.Kubectl(s.t)) + ":$PATH; " + st.command
			}
			mayFail := i+1 < len(steps) && steps[i+1].command == "echo $?"
			if err := s.runUntilShown(st, mayFail); err != nil {
				s.t.Fatalf("%s:%d: $ %s: %v", page, st.line, st.command, err)
			}
		}
	}
}

func TestThePagesRun(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(testutil.MustProgram(t, ".", "./cmd/podconfigd"))
	testutil.MustProgram(t, ".", "./cmd/podconfigctl") // in the same folder
	ran := 0
	for page, text := range testutil.Pages(t) {
		all, _ := blocks(text)
		commands := 0
		for _, b := range all {
			if b.runs() {
				commands += len(b.steps())
			}
		}
		if commands == 0 {
			continue
		}
		ran += commands
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			newSession(t, root, bin).page(page, all)
		})
	}
	if ran < 30 {
		t.Errorf("only %d commands were found", ran)
	}
}

func hasTarget(target string) bool {
	data, err := os.ReadFile("../../Makefile")
	return err == nil && regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(data)
}
