package upgrade

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	flagLine    = regexp.MustCompile(`(?m)^ +(?:-\w, |    )--([a-z][a-z0-9-]*)`)
	commandLine = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
	replacement = regexp.MustCompile(`--[a-z][a-z0-9-]+|podconfigd [a-z]+`)
)

// A flag or a command that is not shown any more is still there, hidden and deprecated, or its error
// names what replaces it.
func TestFlagsOfTheEarlierVersion(t *testing.T) {
	now, before := versions(t)
	commands := 0
	var compare func(path ...string)
	compare = func(path ...string) {
		commands++
		help := output(t, before.podconfigd, append(path, "--help")...)
		shown := output(t, now.podconfigd, append(path, "--help")...)
		for _, flag := range flagLine.FindAllStringSubmatch(help, -1) {
			if strings.Contains(shown, "--"+flag[1]+" ") {
				continue
			}
			got, err := exec.CommandContext(t.Context(), now.podconfigd, append(path, "--"+flag[1]+"=", "--help")...).CombinedOutput()
			text := string(got)
			if err != nil && strings.Contains(text, "unknown flag") && !replacement.MatchString(strings.ReplaceAll(text, "--"+flag[1], "")) {
				t.Errorf("%s --%s is gone, and nothing says what replaces it: %s", strings.Join(path, " "), flag[1], text)
			}
		}
		_, list, found := strings.Cut(help, "\nAvailable Commands:\n")
		if !found {
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for _, command := range commandLine.FindAllStringSubmatch(list, -1) {
			if command[1] != "help" {
				compare(append(path, command[1])...)
			}
		}
	}
	compare()
	if commands < 15 {
		t.Errorf("only %d commands are compared", commands)
	}
}

// The configuration that the earlier version prints is valid for this one, and means the same.
func TestConfigurationOfTheEarlierVersion(t *testing.T) {
	now, before := versions(t)
	flags := []string{"--pod-manifest-path=/etc/kubernetes/manifests", "--manifest-url=http://localhost/pods", "--state-dir=/var/lib/podconfigd", "--hostname-override=node1"}
	m := newMachine(t)
	path := m.dir + "/podconfigd.yaml"
	config := output(t, before.podconfigd, append([]string{"config", "print"}, flags...)...)
	write(t, path, config)
	if out, err := exec.CommandContext(t.Context(), now.podconfigd, "config", "check", "--config="+path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	comment := regexp.MustCompile(` +#.*`)
	printed := make(map[string]bool)
	for line := range strings.Lines(output(t, now.podconfigd, "config", "print", "--config="+path)) {
		printed[comment.ReplaceAllString(strings.TrimSpace(line), "")] = true
	}
	for line := range strings.Lines(config) {
		if line = comment.ReplaceAllString(strings.TrimSpace(line), ""); !printed[line] {
			t.Errorf("the earlier version has %q, and this one does not", line)
		}
	}
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s %v: %v\n%s", program, args, err, failed.Stderr)
	}
	return string(out)
}
