package upgrade

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	flagLine    = regexp.MustCompile(`(?m)^ +(?:-\w, |    )--([a-z][a-z0-9-]*)`)
	commandLine = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
	replacement = regexp.MustCompile(`--[a-z][a-z0-9-]+|podconfigctl [a-z]+`)
)

// visit calls help with the path of each command, which returns its help.
func visit(path []string, help func(path ...string) string) {
	_, list, ok := strings.Cut(help(path...), "\nAvailable Commands:\n")
	if !ok {
		return
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for _, command := range commandLine.FindAllStringSubmatch(list, -1) {
		if command[1] != "help" {
			visit(append(slices.Clip(path), command[1]), help)
		}
	}
}

func compareFlags(t *testing.T, now version, earlierHelp func(path ...string) string) {
	t.Helper()
	commands := 0
	visit(nil, func(path ...string) string {
		commands++
		help := earlierHelp(path...)
		program := now.podconfigd
		if len(path) > 0 && path[0] != "prepare" {
			program = now.podconfigctl
		}
		shown := output(t, program, append(path, "--help")...)
		for _, flag := range flagLine.FindAllStringSubmatch(help, -1) {
			if strings.Contains(shown, "--"+flag[1]+" ") {
				continue
			}
			got, err := exec.CommandContext(t.Context(), program, append(path, "--"+flag[1]+"=", "--help")...).CombinedOutput()
			text := string(got)
			if err != nil && strings.Contains(text, "unknown flag") && !replacement.MatchString(strings.ReplaceAll(text, "--"+flag[1], "")) {
				t.Errorf("%s --%s is gone, and nothing says what replaces it: %s", strings.Join(path, " "), flag[1], text)
			}
		}
		return help
	})
	if commands < 15 {
		t.Errorf("only %d commands are compared", commands)
	}
}

var configFlags = []string{"--pod-manifest-path=/etc/kubernetes/manifests", "--manifest-url=http://localhost/pods", "--state-dir=/var/lib/podconfigd", "--hostname-override=node1"}

func compareConfiguration(t *testing.T, now version, config string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podconfigd.yaml")
	testutil.WriteFile(t, path, config)
	if out, err := exec.CommandContext(t.Context(), now.podconfigctl, "config", "check", "--config="+path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	comment := regexp.MustCompile(` +#.*`)
	printed := make(map[string]bool)
	for line := range strings.Lines(output(t, now.podconfigctl, "config", "print", "--config="+path)) {
		printed[comment.ReplaceAllString(strings.TrimSpace(line), "")] = true
	}
	for line := range strings.Lines(config) {
		if line = comment.ReplaceAllString(strings.TrimSpace(line), ""); !printed[line] {
			t.Errorf("the earlier version has %q, and this one does not", line)
		}
	}
}

// What is recorded is what the earlier version says.
func TestTheEarlierVersionIsTheRecorded(t *testing.T) {
	_, before := versions(t)
	recorded := sections(t, helpFile)
	visit(nil, func(path ...string) string {
		help := output(t, before.podconfigd, append(path, "--help")...)
		if name := strings.Join(append([]string{"podconfigd"}, path...), " "); recorded[name] != help {
			t.Errorf("%s has another help than the recorded one; record the earlier version again", name)
		}
		return help
	})
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s %v: %v\n%s", program, args, err, failed.Stderr)
	}
	return string(out)
}
