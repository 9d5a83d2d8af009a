package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/test/components"
)

// step is a command and its documented output.
type step struct {
	line    int
	command string
	output  []string
}

// steps returns the commands in the console blocks of a Markdown file.
func steps(markdown string) (all []step) {
	inside := false
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: i + 1, command: strings.TrimPrefix(line, "$ ")})
		case len(all) > 0:
			last := &all[len(all)-1]
			last.output = append(last.output, line)
		}
	}
	return all
}

// pattern matches the start of the output.
func (s *step) pattern() *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.Join(s.output, "\n"))
	return regexp.MustCompile(`^` + strings.ReplaceAll(quoted, "…", `.*`) + `(\n|$)`)
}

// session runs commands in a directory, in order.
type session struct {
	t   *testing.T
	dir string
	env []string
}

func (s *session) run(st step) error {
	if value, ok := strings.CutPrefix(st.command, "export "); ok {
		s.env = append(s.env, value)
		return nil
	}
	out := new(testutil.Buffer)
	cmd := exec.Command("bash", "-c", st.command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, append(os.Environ(), s.env...), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var once sync.Once
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // usually it has ended
		once.Do(func() { <-ended })
	})
	deadline := time.After(testutil.Patience)
	for {
		select {
		case err := <-ended:
			once.Do(func() {})
			if err != nil {
				return fmt.Errorf("%w, and it printed:\n%s", err, out)
			}
			if len(st.output) > 0 && !st.pattern().MatchString(out.String()) {
				return fmt.Errorf("it printed:\n%s", out)
			}
			return nil
		case <-deadline:
			return fmt.Errorf("after %v it had printed:\n%s", testutil.Patience, out)
		case <-time.After(10 * time.Millisecond):
			if len(st.output) > 0 && st.pattern().MatchString(out.String()) {
				return nil // it may continue to run
			}
		}
	}
}

func TestTheConsoleBlocks(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(testutil.MustProgram(t, ".", "./cmd/podconfigd"))
	ran := 0
	for page, text := range testutil.Pages(t) {
		all := steps(text)
		if len(all) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			s := &session{t: t, dir: t.TempDir()}
			if err := errors.Join(
				os.Symlink(bin, filepath.Join(s.dir, "bin")),
				os.Symlink(filepath.Join(root, "examples"), filepath.Join(s.dir, "examples")),
			); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(all, func(st step) bool { return strings.HasPrefix(st.command, "kubectl ") }) {
				s.env = append(s.env, "PATH="+filepath.Dir(components.Kubectl(t))+":"+os.Getenv("PATH"), "HOME="+s.dir)
			}
			for _, st := range all {
				if target, ok := strings.CutPrefix(st.command, "make "); ok {
					checkTarget(t, root, target) // running it would run this test again
					continue
				}
				if err := s.run(st); err != nil {
					t.Fatalf("%s:%d: $ %s: %v", page, st.line, st.command, err)
				}
			}
		})
		ran += len(all)
	}
	if ran < 5 {
		t.Errorf("only %d commands were found", ran)
	}
}

func checkTarget(t *testing.T, root, target string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil || !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(data) {
		t.Errorf("the Makefile has no target %q: %v", target, err)
	}
}

// link is a link to a file in this repository.
var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range testutil.Pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: a link to %s: %v", page, m[1], err)
			}
		}
	}
}

// Every test that these pages name exists.
func TestTheDocsNameTheirTests(t *testing.T) {
	functions := testFunctions(t)
	pages := testutil.Pages(t)
	for _, page := range []string{"docs/explanation/kubelet-differences.md", "docs/explanation/security.md"} {
		scenarios := regexp.MustCompile("`([a-z0-9-]+)\\.txtar`").FindAllStringSubmatch(pages[page], -1)
		tests := regexp.MustCompile("`(Test[A-Za-z0-9]+)[`/]").FindAllStringSubmatch(pages[page], -1)
		if len(scenarios) < 5 || len(tests) < 5 {
			t.Errorf("%s names only %d scenarios and %d tests", page, len(scenarios), len(tests))
		}
		for _, m := range scenarios {
			if _, err := os.Stat("../script/testdata/" + m[1] + ".txtar"); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			}
		}
		for _, m := range tests {
			if !functions[m[1]] {
				t.Errorf("%s: no test is called %s", page, m[1])
			}
		}
	}
}

// testFunctions returns the names of all test functions in the source tree.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(data), -1) {
			found[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
