package commandtest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of the help if the output is no terminal.
const helpWidth = 100

// Help tests that the help of a command has texts, and no line that is too long.
func Help(t *testing.T, root *cobra.Command, args []string, wants ...string) {
	t.Helper()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append(args, "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, " ") || len(line) > helpWidth && strings.HasPrefix(line, "      ") {
			t.Errorf("the line %q", line)
		}
	}
}

// ValueNames tests that the help has after each flag what its value is: pflag takes the first text in back quotes of the usage.
func ValueNames(t *testing.T, root *cobra.Command) {
	t.Helper()
	name := regexp.MustCompile(`^[A-Za-z0-9:=,."\[\]]*$`)
	walk(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(flag); !name.MatchString(value) {
				t.Errorf("%s --%s: the value is %q", cmd.CommandPath(), flag.Name, value)
			}
		})
	})
}
