package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// disguised is a command in a block that is not run.
var disguised = regexp.MustCompile(`(?m)^(\$ |#? ?(sudo )?(podconfigd|podconfigctl|kubectl|curl|systemctl|apt-get|dpkg|go|make|grpcurl) )`)

// ends is a command that ends only what the page has started. Its group is the file with the process ID.
var ends = regexp.MustCompile(`^kill (?:-[A-Z]+ )?"\$\(cat ([a-z]+\.pid)\)"$`)

// kills is a command that can end other programs of the reader.
var kills = regexp.MustCompile(`\b(pkill|killall|kill)\b`)

// fault says what is wrong with a block, if anything is.
func (b *block) fault(functions map[string]bool) string {
	for _, mark := range b.marks {
		if fault := b.faultOf(mark, functions); fault != "" {
			return fault
		}
	}
	if len(b.marks) > 0 {
		return ""
	}
	switch b.language {
	case "console":
		if len(b.steps()) == 0 {
			return "no line begins with \"$ \""
		}
		for _, st := range b.steps() {
			if kills.MatchString(st.command) && !ends.MatchString(st.command) {
				return "a command can end other programs: use kill \"$(cat PROGRAM.pid)\": " + st.command
			}
		}
		return ""
	case "text", "json", "mermaid":
		if command := disguised.FindString(b.text()); command != "" {
			return "a command is not in a console block: " + command
		}
		return ""
	case "yaml":
		if strings.Contains(b.text(), "kind: PodConfigdConfiguration\n") {
			return ""
		}
	}
	return "nothing runs this block of " + b.language + ": the package comment of test/docs says how to mark it"
}

// faultOf says what is wrong with a mark of a block.
func (b *block) faultOf(mark string, functions map[string]bool) string {
	name, isRunBy := strings.CutPrefix(mark, "run by ")
	target, isMake := strings.CutPrefix(name, "make ")
	scenario, isScenario := strings.CutSuffix(name, ".txtar")
	switch {
	case strings.HasPrefix(mark, "file "):
	case isMake:
		if !hasTarget(target) {
			return "no such target: make " + target
		}
	case isScenario:
		if _, err := os.Stat("../script/testdata/" + scenario + ".txtar"); err != nil {
			return err.Error()
		}
	case isRunBy:
		if !functions[name] {
			return "no test is called " + name
		}
	default:
		data, err := os.ReadFile(filepath.Join("..", "..", mark))
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(data), b.text()) {
			return mark + " does not have this text"
		}
	}
	return ""
}

// A block that no test runs would become wrong sooner or later.
func TestEveryBlockIsRun(t *testing.T) {
	functions := testFunctions(t)
	for page, text := range testutil.Pages(t) {
		if page != "README.md" && !strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "docs/adr/") {
			continue
		}
		fenced, indented := blocks(text)
		for _, line := range indented {
			t.Errorf("%s:%d: an indented block: fence it", page, line)
		}
		for _, b := range fenced {
			if fault := b.fault(functions); fault != "" {
				t.Errorf("%s:%d: %s", page, b.line, fault)
			}
		}
	}
}

func TestFaultsOfBlocks(t *testing.T) {
	for name, test := range map[string]struct{ markdown, want string }{
		"a shell block":            {"```sh\nls\n```", "nothing runs"},
		"no language":              {"```\nls\n```", "nothing runs"},
		"a command in text":        {"```text\npodconfigctl watch\n```", "not in a console block"},
		"no prompt":                {"```console\nls\n```", "no line begins"},
		"unknown test":             {"<!-- run by TestNone -->\n```sh\nls\n```", "no test is called TestNone"},
		"unknown target":           {"<!-- run by make none -->\n```sh\nls\n```", "no such target"},
		"target":                   {"<!-- run by make test -->\n```sh\nls\n```", ""},
		"unknown script":           {"<!-- run by none.txtar -->\n```sh\nls\n```", "no such file"},
		"another text":             {"<!-- README.md -->\n```text\nnot there\n```", "does not have this text"},
		"unknown file":             {"<!-- none.go -->\n```go\nx\n```", "no such file"},
		"a command that runs":      {"```console\n$ ls\n```", ""},
		"pkill":                    {"```console\n$ pkill -KILL -x server\n```", "can end other programs"},
		"killall":                  {"```console\n$ sudo killall server\n```", "can end other programs"},
		"kill of some process":     {"```console\n$ kill -KILL \"$(pidof server)\"\n```", "can end other programs"},
		"kill of what was started": {"```console\n$ kill -KILL \"$(cat server.pid)\"\n```", ""},
		"test":                     {"<!-- run by TestX -->\n```sh\nls\n```", ""},
		"text of a file":           {"<!-- README.md -->\n```text\n# podconfigd\n```", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fenced, _ := blocks(test.markdown)
			got := fenced[0].fault(map[string]bool{"TestX": true})
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%q: fault %q, want %q", test.markdown, got, test.want)
			}
		})
	}
	if _, indented := blocks("a\n\n    ls\n"); len(indented) != 1 {
		t.Error("an indented block is not found")
	}
}

func TestPatterns(t *testing.T) {
	for output, matches := range map[string]bool{
		"a\nb1": true, "a\n\nb1\n": true, "a\nx\ny\nb1\nc": true, "a": false, "a\nb": false, "a\nb12": true, "x\na\nb1": false,
	} {
		t.Run(strings.ReplaceAll(output, "\n", ","), func(t *testing.T) {
			for _, shown := range [][]string{{"a", "…", "b…1…"}, {"a", "…", "b…1…", "…"}} {
				if got := (&step{output: shown}).pattern().MatchString(output); got != matches {
					t.Errorf("%q for %q: %v, want %v", output, shown, got, matches)
				}
			}
		})
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
