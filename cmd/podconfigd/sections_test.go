package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help has all that the help of cobra has, and the flags under their headings.
func TestHelp(t *testing.T) {
	for command, wants := range map[string][]string{
		"": {
			"Usage:\n  podconfigd [flags]\n  podconfigd [command]\n", "\nExamples:\n", "\nAvailable Commands:\n", "\n  watch       Print",
			"\nSource flags:\n      --pod-manifest-path", "\nConfiguration file flags:\n      --config string", "\nLog flags:\n", `Use "podconfigd [command] --help"`,
		},
		"get pods": {"\nAliases:\n  pods, pod, po\n", "\nFlags:\n", "\nConnection flags:\n"},
	} {
		t.Run("podconfigd "+command, func(t *testing.T) {
			var out bytes.Buffer
			root := newRootCommand()
			root.SetOut(&out)
			root.SetArgs(append(strings.Fields(command), "--help"))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q: no %q in\n%s", command, want, &out)
				}
			}
			for line := range strings.Lines(out.String()) {
				if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, " ") || len(line) > helpWidth && strings.HasPrefix(line, "      ") {
					t.Errorf("%q: the line %q", command, line)
				}
			}
		})
	}
}

// The help has after each flag what its value is: pflag takes the first text in back quotes of the usage.
func TestHelpNamesTheValues(t *testing.T) {
	name := regexp.MustCompile(`^[A-Za-z0-9:=,."\[\]]*$`)
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(flag); !name.MatchString(value) {
				t.Errorf("%s --%s: the value is %q", cmd.CommandPath(), flag.Name, value)
			}
		})
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	look(newRootCommand())
}
